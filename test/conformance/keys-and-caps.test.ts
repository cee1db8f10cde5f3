import { SCOPES } from '@semblance/common/scopes';
import { apiOf } from '@semblance/testkit/stack/api';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: what a key may do, until when, from where, and what may be spent. */
let stack: Stack;
let account: Account;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 100 });
}, 240_000);

type Made = { key_id: string; api_key: string };
type Operations = Record<string, Record<string, { 'x-scope'?: string; security?: object[] }>>;

async function ask(apiKey: string, method: string, path: string, body?: unknown) {
  const response = await fetch(account.api.baseUrl + path, {
    method,
    headers: {
      authorization: `Bearer ${apiKey}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: (text ? JSON.parse(text) : undefined) as Record<string, unknown> };
}
const codeOf = ({ body }: { body: unknown }) => (body as { error?: { code?: string } })?.error?.code;
const messageOf = ({ body }: { body: unknown }) => (body as { error?: { message?: string } })?.error?.message;
const make = (rules: object = {}, of = account.apiKey) => ask(of, 'POST', '/keys', rules);
async function made(rules: object = {}, of = account.apiKey): Promise<Made> {
  const answer = await make(rules, of);
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return answer.body as Made;
}

describe('scopes', () => {
  test.each(SCOPES)('a key with "%s" alone is answered as each operation declares', async (scope) => {
    const document = (await (await fetch(`${account.api.baseUrl}/openapi.json`)).json()) as {
      paths: Operations;
    };
    const { api_key, key_id } = await made({ scopes: [scope] });
    await stack.admin('key', 'limit', { key: key_id, 'per-minute': '10000' });
    let walked = 0;
    for (const [path, operations] of Object.entries(document.paths)) {
      for (const [method, { 'x-scope': needed }] of Object.entries(operations)) {
        if (needed === undefined || path.endsWith('/events')) continue;
        const url = path
          .replace('{file_key}', 'api/up-01k9x3v7m2q8r5t1w4y6z0abcd')
          .replaceAll(/\{(\w{3})\w*\}/g, '$1-01k9x3v7m2q8r5t1w4y6z0abcd');
        // A wrong field, so that nothing is made.
        const body = ['post', 'patch'].includes(method) ? { name: 1, duration_minutes: 'x' } : undefined;
        const answer = await ask(api_key, method.toUpperCase(), url, body);
        const what = `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`;
        if (needed === scope) expect([401, 403], what).not.toContain(answer.status);
        else {
          expect([answer.status, codeOf(answer)], what).toEqual([403, 'forbidden']);
          expect(messageOf(answer)).toContain(`"${needed}"`);
        }
        walked++;
      }
    }
    expect(walked).toBeGreaterThan(25);
  });

  test('what needs no key, needs no scope', async () => {
    const { api_key } = await made({ scopes: ['sessions'] });
    for (const path of ['/openapi.json', '/docs', '/receipts/keys'])
      expect(
        (await fetch(account.api.baseUrl + path, { headers: { authorization: `Bearer ${api_key}` } })).status,
      ).toBe(200);
    expect((await fetch(`${account.api.baseUrl}/pricing`)).status).toBe(200);
    expect((await fetch(`${account.api.baseUrl}/keys`, { method: 'OPTIONS' })).status).toBe(204);
  });
});

describe('a key', () => {
  test('is made, listed without its secret, changed and revoked', async () => {
    const key = await made({ name: 'shop', scopes: ['read'], expires_at: '2040-01-31', cap_day_usd: 1.5 });
    expect(key).toMatchObject({
      name: 'shop',
      scopes: ['read'],
      expires_at: '2040-01-31T00:00:00.000Z',
      allowed_addresses: [],
      caps: [
        { period: 'day', cap_usd: 1.5, spent_usd: 0, held_usd: 0, left_usd: 1.5 },
        { period: 'month', cap_usd: null, left_usd: null },
      ],
    });
    const path = `/keys/${key.key_id}`;
    const listed = (await ask(account.apiKey, 'GET', '/keys')).body.keys as Record<string, unknown>[];
    const { api_key, ...shown } = key;
    expect(listed.find(({ key_id }) => key_id === key.key_id)).toEqual(shown);
    expect(JSON.stringify(listed)).not.toContain(api_key);
    expect((await ask(api_key, 'GET', '/balance')).status).toBe(200);
    const changed = await ask(account.apiKey, 'PATCH', path, {
      name: null,
      expires_at: null,
      cap_day_usd: null,
    });
    expect(changed.body).toMatchObject({ name: null, expires_at: null, scopes: ['read'] });
    expect((await ask(account.apiKey, 'DELETE', path)).body).toEqual({ key_id: key.key_id, revoked: true });
    expect((await ask(account.apiKey, 'DELETE', path)).status).toBe(200);
    expect((await ask(api_key, 'GET', '/balance')).status).toBe(401);
    expect((await ask(account.apiKey, 'PATCH', path, { name: 'x' })).status).toBe(404);
  });

  test('that is not for this address, or has expired, is like an unknown one', async () => {
    const elsewhere = await made({ allowed_addresses: ['203.0.113.0/24'] });
    const unknown = await ask('sk_live_unknown', 'GET', '/balance');
    expect(unknown.status).toBe(401);
    expect(await ask(elsewhere.api_key, 'GET', '/balance')).toEqual(unknown);
    const forged = await fetch(`${account.api.baseUrl}/balance`, {
      headers: { authorization: `Bearer ${elsewhere.api_key}`, 'x-forwarded-for': '203.0.113.7' },
    });
    expect(forged.status).toBe(401);
    const here = await made({ allowed_addresses: ['127.0.0.0/8', '::1'] });
    expect((await ask(here.api_key, 'GET', '/balance')).status).toBe(200);
    const ending = await made({ expires_at: new Date(Date.now() + 1_500).toISOString() });
    expect((await ask(ending.api_key, 'GET', '/balance')).status).toBe(200);
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(await ask(ending.api_key, 'GET', '/balance')).toEqual(unknown);
  });

  test.each([
    ['a scope that is none', { scopes: ['root'] }],
    ['no scope', { scopes: [] }],
    ['scopes that are no list', { scopes: 'read' }],
    ['a name of nothing', { name: ' ' }],
    ['a name of too much', { name: 'x'.repeat(101) }],
    ['a name that is a number', { name: 7 }],
    ['a past end', { expires_at: '2020-01-01' }],
    ['an end that is none', { expires_at: 'soon' }],
    ['an address that is none', { allowed_addresses: ['example.com'] }],
    ['too many addresses', { allowed_addresses: Array(33).fill('192.0.2.1') }],
    ['a cap below nothing', { cap_day_usd: -0.01 }],
    ['a cap of too many decimals', { cap_day_usd: 0.0000001 }],
    ['a cap of all money', { cap_month_usd: 1e300 }],
    ['a cap as text', { cap_month_usd: '5' }],
    ['a list', []],
    ['null', null],
  ])('is not made with %s', async (_what, body) => {
    const answer = await make(body as object);
    expect([answer.status, codeOf(answer)]).toEqual([400, 'invalid_input']);
  });

  test('grants no more than it has', async () => {
    const maker = await made({ scopes: ['account', 'read'], cap_day_usd: 1 });
    const answer = await make({ scopes: ['submit'] }, maker.api_key);
    expect([answer.status, codeOf(answer)]).toEqual([403, 'forbidden']);
    expect((await make({ cap_day_usd: 2 }, maker.api_key)).status).toBe(403);
    expect(await made({ scopes: ['read'], cap_day_usd: 0.5 }, maker.api_key)).toMatchObject({
      made_by: maker.key_id,
    });
    const reader = await made({ scopes: ['read'] });
    expect((await make({}, reader.api_key)).status).toBe(403);
  });
});

test('a cap refuses what it does not leave with 402, and says what is spent and held of it', async () => {
  const { api_key, key_id } = await made({ cap_day_usd: 0.06 });
  const api = apiOf({ baseUrl: account.api.baseUrl, apiKey: api_key });
  const keys = { image_key: await api.upload(ADMIRAL), face_key: await api.upload(ASTRONAUT) };
  const answers = await Promise.all(Array.from({ length: 6 }, () => api.post('/face-swap-image', keys)));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 402, 402, 402, 402, 402]);
  const refused = answers.find(({ status }) => status === 402);
  expect(refused && codeOf(refused)).toBe('insufficient_balance');
  expect(refused && messageOf(refused)).toMatch(
    /^The cap of this key, 0\.06 USD a day, leaves 0 USD: .* held\./,
  );
  const { id } = (answers.find(({ status }) => status === 200) as { body: unknown }).body as { id: string };
  const job = await api.finished(id);
  const listed = (await ask(account.apiKey, 'GET', '/keys')).body.keys as {
    key_id: string;
    caps: object[];
  }[];
  expect(listed.find((key) => key.key_id === key_id)?.caps[0]).toMatchObject({
    spent_usd: job.charged_usd,
    held_usd: 0,
  });
}, 240_000);

test('the holder sets caps of the account, up to those of the owner of the service', async () => {
  const own = await stack.newAccount({ balanceUsd: 1 });
  const set = (body: object) => ask(own.apiKey, 'PATCH', '/account', body);
  await stack.admin('cap', 'set', { account: own.accountId, 'cap-day': '0.5' });
  const lowered = await set({ cap_day_usd: 0.2 });
  expect(lowered.body.caps).toMatchObject([
    { period: 'day', cap_usd: 0.2, owner_cap_usd: 0.5, own_cap_usd: 0.2, left_usd: 0.2 },
    { period: 'month', cap_usd: null },
  ]);
  expect(codeOf(await set({ cap_day_usd: 0.500001 }))).toBe('forbidden');
  expect(codeOf(await set({ cap_day_usd: 'much' }))).toBe('invalid_input');
  await set({ cap_day_usd: null });
  expect((await ask(own.apiKey, 'GET', '/account')).body.caps).toMatchObject([
    { cap_usd: 0.5, own_cap_usd: null },
    {},
  ]);
  const alarmed = await set({ alarm_balance_usd: 2 });
  expect(alarmed.body).toMatchObject({ alarm_balance_usd: 2, available_usd: 1, balance_is_low: true });
});
