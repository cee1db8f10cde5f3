import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { json, state } from '@semblance/testkit/control-plane/admin';
import { expect, test } from 'vitest';

test('a named token is made, used, replaced and ended; the audit names it, and whoever is stated beside it', async () => {
  const make = (name: string, role: string, ...more: string[]) =>
    json('token', 'create', '--name', name, '--role', role, ...more);
  const { answer: made } = await make('helen', 'support');
  expect(made).toMatchObject({ name: 'helen', role: 'support', token: expect.stringMatching(/^sat_/) });
  expect(Date.parse(made.expires_at) - Date.parse(made.issued_at)).toBe(90 * 86_400_000);
  expect((await make('robot', 'read-only', '--expires', 'never')).answer.expires_at).toBeNull();
  expect((await make('robot', 'owner')).answer.error.code).toBe('invalid_input');
  expect((await make('x', 'owner', '--expires', 'soon')).answer.error.code).toBe('usage');

  const file = join(state, 'helen');
  const as = async (token: string, ...args: string[]) => {
    await writeFile(file, `${token}\n`);
    return json(...args, '--token-file', file);
  };
  const { answer: account } = await json('account', 'create', '--name', 'Served');
  const limit = ['key', 'limit', '--key', account.key_id, '--per-minute', '9', '--actor', 'Helen of Support'];
  expect((await as(made.token, ...limit)).code).toBe(0);
  const topUp = await as(made.token, 'account', 'topup', '--account', account.account_id, '--usd', '1');
  expect(topUp.answer.error).toEqual({
    code: 'unauthorized',
    message: 'TopUpAccount needs the role owner; helen has support.',
  });
  const [entry] = (await json('audit', 'list', '--account', account.account_id)).answer;
  expect(entry).toMatchObject({
    actor: 'helen',
    role: 'support',
    token_id: made.token_id,
    stated: 'Helen of Support',
    action: 'LimitKey',
  });

  const { answer: rotated } = await json('token', 'rotate', '--token', made.token_id);
  expect((await as(made.token, 'account', 'list')).answer.error.code).toBe('unauthorized');
  expect((await as(rotated.token, 'account', 'list')).code).toBe(0);
  await json('token', 'revoke', '--token', made.token_id);
  expect((await as(rotated.token, 'account', 'list')).answer.error).toMatchObject({ code: 'unauthorized' });
  const listed = (await json('token', 'list')).answer;
  expect(listed.map(({ name }: { name: string }) => name)).toEqual(['robot', 'helen']);
  expect(listed[1]).toMatchObject({ revoked_at: expect.any(String), last_used_at: expect.any(String) });
  expect(JSON.stringify(listed)).not.toContain('sat_');
  expect((await as('', 'account', 'list')).answer.error.code).toBe('usage');
  expect((await json('account', 'list', '--token-file', join(state, 'none'))).answer.error.code).toBe(
    'usage',
  );
});
