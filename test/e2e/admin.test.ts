import { execFile } from 'node:child_process';
import { dirname } from 'node:path';
import { apiOf } from '@semblance/testkit/stack/api';
import { type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { cleanEnv, root } from '@semblance/testkit/stack/stack-process';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;

beforeAll(async () => {
  stack = await sharedStack();
}, 240_000);

describe('account', () => {
  test('create, topup, show', async () => {
    const created = await stack.admin('account', 'create', { name: 'Film & Söhne', 'balance-usd': '1.25' });
    expect(created).toEqual({
      account_id: expect.any(String),
      key_id: expect.any(String),
      api_key: expect.any(String),
    });
    const account = String(created.account_id);
    await stack.admin('account', 'topup', { account, usd: '0.000001' });
    expect(await stack.admin('account', 'show', { account })).toMatchObject({
      account_id: account,
      balance: 1.250001,
      reserved: 0,
      ledger_ok: true,
    });
  });

  test('create without a balance has none, and two of one name are two', async () => {
    const [one, two] = await Promise.all([
      stack.admin('account', 'create', { name: 'twin' }),
      stack.admin('account', 'create', { name: 'twin' }),
    ]);
    expect(one.account_id).not.toBe(two.account_id);
    expect(await stack.admin('account', 'show', { account: String(one.account_id) })).toMatchObject({
      balance: 0,
    });
  });
});

describe('key', () => {
  test('create shows the key once; limit and revoke answer for it', async () => {
    const { accountId } = await stack.newAccount();
    const made = await stack.admin('key', 'create', { account: accountId });
    expect(made).toEqual({ key_id: expect.any(String), api_key: expect.any(String) });
    const key = String(made.key_id);
    const limited = await stack.admin('key', 'limit', { key, 'per-minute': 7 });
    expect(limited).toMatchObject({ key_id: key });
    expect(limited).not.toHaveProperty('api_key');
    const api = apiOf({ baseUrl: stack.api.baseUrl, apiKey: String(made.api_key) });
    expect((await api.get('/balance')).status).toBe(200);
    expect(await stack.admin('key', 'revoke', { key })).toMatchObject({ key_id: key });
    expect((await api.get('/balance')).status).toBe(401);
    // A second revoke of the same key must succeed too.
    expect(await stack.admin('key', 'revoke', { key })).toMatchObject({ key_id: key });
  });
});

describe('what is refused is one JSON document with a code, and the exit status is not 0', () => {
  test.each<[string, [string, string, Record<string, string>]]>([
    ['an account that does not exist', ['account', 'show', { account: 'acct-none' }]],
    ['a top-up of an account that does not exist', ['account', 'topup', { account: 'acct-none', usd: '1' }]],
    ['a negative balance', ['account', 'create', { name: 'x', 'balance-usd': '-1' }]],
    ['an amount that is none', ['account', 'create', { name: 'x', 'balance-usd': 'much' }]],
    [
      'a part of a dollar too small to be booked',
      ['account', 'create', { name: 'x', 'balance-usd': '0.0000001' }],
    ],
    ['a name that is empty', ['account', 'create', { name: '' }]],
    ['a key that does not exist', ['key', 'revoke', { key: 'key-none' }]],
    ['a limit of nothing', ['key', 'limit', { key: 'key-none', 'per-minute': '0' }]],
    ['a flag that does not exist', ['account', 'create', { name: 'x', colour: 'red' }]],
    ['a flag that is missing', ['account', 'create', {}]],
    ['a command that does not exist', ['account', 'destroy', {}]],
  ])('%s', async (_name, [noun, verb, flags]) => {
    await expect(stack.admin(noun, verb, flags)).rejects.toMatchObject({
      name: 'AdminRefusal',
      code: expect.stringMatching(/^[a-z_]+$/),
      message: expect.stringMatching(/\S/),
      exitCode: expect.toSatisfy((code: number) => code > 0),
    });
  });

  test('top-ups of nothing or less change nothing', async () => {
    const { accountId } = await stack.newAccount({ balanceUsd: 3 });
    for (const usd of ['0', '-1', 'NaN', '1e3', '']) {
      await expect(stack.admin('account', 'topup', { account: accountId, usd })).rejects.toMatchObject({
        name: 'AdminRefusal',
      });
    }
    expect(await stack.admin('account', 'show', { account: accountId })).toMatchObject({ balance: 3 });
  });
});

test('npm run --silent admin prints the document and nothing else', async () => {
  const stdout = await new Promise<string>((resolve, reject) => {
    const args = ['run', '--silent', 'admin', '--', 'account', 'create', '--name', 'by npm', '--json'];
    const env = { ...cleanEnv(), SEMBLANCE_STATE_DIR: dirname(stack.file) };
    execFile('npm', args, { cwd: root, env }, (error, out, err) =>
      error ? reject(new Error(err || error.message)) : resolve(out),
    );
  });
  expect(Object.keys(JSON.parse(stdout) as object)).toEqual(['account_id', 'key_id', 'api_key']);
});
