import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: browsers that are signed in to the console. */
let stack: Stack;
let account: Account;
let origin: string;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 100 });
  origin = new URL(account.api.baseUrl).origin;
}, 240_000);

const PAGE = { 'semblance-console': '1' };
const own = () => ({ ...PAGE, origin });

async function ask(method: string, path: string, headers: Record<string, string>, body?: object) {
  const response = await fetch(account.api.baseUrl + path, {
    method,
    headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const parsed = (text ? JSON.parse(text) : undefined) as Record<string, unknown>;
  const code = (parsed?.error as { code?: string } | undefined)?.code;
  return { status: response.status, body: parsed, code, headers: response.headers };
}

const signIn = (apiKey = account.apiKey, headers: Record<string, string> = own()) =>
  ask('POST', '/console/sessions', { authorization: `Bearer ${apiKey}`, ...headers });

async function signedIn() {
  const answer = await signIn();
  expect(answer.status).toBe(201);
  const set = answer.headers.get('set-cookie') ?? '';
  return { set, id: String(answer.body.session_id), cookie: set.slice(0, set.indexOf(';')), answer };
}

describe('a browser', () => {
  test('exchanges a key for a cookie that scripts and other sites have nothing of, and never sees the key again', async () => {
    const { set, answer } = await signedIn();
    expect(set).toMatch(/^semblance-console=con_[\w-]{40,}; Path=\/; HttpOnly; SameSite=Strict$/);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(JSON.stringify(answer.body)).not.toMatch(/con_|sk_live_/);
    expect(answer.body).toMatchObject({ key_id: account.keyId, current: true });
  });

  test('does with the cookie what the key may do, until it signs out', async () => {
    const { cookie, id } = await signedIn();
    const headers = { ...own(), cookie };
    expect((await ask('GET', '/balance', { ...PAGE, cookie })).body).toEqual(await account.api.balance());
    const made = await ask('POST', '/keys', headers, { name: 'from the console', scopes: ['read'] });
    expect([made.status, made.body.made_by]).toEqual([201, account.keyId]);
    const listed = await ask('GET', '/console/sessions', { ...PAGE, cookie });
    expect(listed.body.sessions).toContainEqual(expect.objectContaining({ session_id: id, current: true }));
    const out = await ask('DELETE', '/console/sessions/current', headers);
    expect(out.body).toEqual({ session_id: id, ended: true });
    expect(out.headers.get('set-cookie')).toMatch(/^semblance-console=; .*Max-Age=0/);
    const after = await ask('GET', '/balance', { ...PAGE, cookie });
    expect([after.status, after.code]).toEqual([401, 'unauthorized']);
  });

  test('is signed in by no page of somebody else', async () => {
    const hostile: Record<string, string>[] = [
      {},
      { origin },
      { ...PAGE, origin: 'https://evil.example' },
      PAGE,
    ];
    for (const headers of hostile) {
      const { status, code, headers: answered } = await signIn(account.apiKey, headers);
      expect([status, code]).toEqual([400, 'invalid_input']);
      expect(answered.get('set-cookie')).toBeNull();
    }
  });

  test('needs a key of the scope for it, and one that exists', async () => {
    const reader = await ask(
      'POST',
      '/keys',
      { authorization: `Bearer ${account.apiKey}` },
      { scopes: ['read'] },
    );
    expect((await signIn(String(reader.body.api_key))).code).toBe('forbidden');
    expect((await signIn('sk_live_wrong')).code).toBe('unauthorized');
    expect((await ask('POST', '/console/sessions', own())).code).toBe('unauthorized');
    const { cookie } = await signedIn();
    expect((await ask('POST', '/console/sessions', { ...own(), cookie })).code).toBe('unauthorized');
  });
});

describe('a cookie', () => {
  test('is worth nothing to other pages, whatever they call', async () => {
    const { cookie } = await signedIn();
    const hostile: Record<string, string>[] = [
      {},
      { origin },
      { ...PAGE, origin: 'https://evil.example' },
      { ...PAGE, origin: 'null' },
      { ...PAGE, origin, 'sec-fetch-site': 'same-site' },
      { ...PAGE, authorization: 'Bearer wrong' },
      PAGE,
    ];
    for (const headers of hostile)
      for (const [method, path, body] of [
        ['POST', '/keys', {}],
        ['POST', '/webhook-secret/rotate', {}],
        ['DELETE', `/keys/${account.keyId}`, undefined],
        ['PATCH', '/account', { cap_day_usd: 0 }],
      ] as const) {
        const answer = await ask(method, path, { ...headers, cookie }, body);
        expect([answer.status, answer.code], `${method} ${path} ${JSON.stringify(headers)}`).toEqual([
          401,
          'unauthorized',
        ]);
      }
    // A page of another origin asks first, and is not allowed.
    const preflight = await ask('OPTIONS', '/keys', {
      origin: 'https://evil.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'semblance-console',
    });
    expect(preflight.headers.get('access-control-allow-origin')).toBeNull();
    expect(preflight.headers.get('access-control-allow-headers')).toBeNull();
  });

  test('is no key, and names no session of another account', async () => {
    const { cookie } = await signedIn();
    const token = cookie.slice(cookie.indexOf('=') + 1);
    expect((await ask('GET', '/balance', { authorization: `Bearer ${token}` })).code).toBe('unauthorized');
    const stranger = await stack.newAccount();
    const { id } = await signedIn();
    const end = await ask('DELETE', `/console/sessions/${id}`, {
      authorization: `Bearer ${stranger.apiKey}`,
    });
    expect([end.status, end.code]).toEqual([404, 'not_found']);
  });

  test('ends with its key, and with one call of the key', async () => {
    const authorization = `Bearer ${account.apiKey}`;
    const second = await ask('POST', '/keys', { authorization });
    const { headers } = await signIn(String(second.body.api_key));
    const cookie = headers.get('set-cookie')?.split(';')[0] ?? '';
    expect((await ask('GET', '/balance', { ...PAGE, cookie })).status).toBe(200);
    await ask('DELETE', `/keys/${second.body.key_id}`, { authorization });
    expect((await ask('GET', '/balance', { ...PAGE, cookie })).code).toBe('unauthorized');
    const mine = await signedIn();
    expect((await ask('DELETE', `/console/sessions/${mine.id}`, { authorization })).status).toBe(200);
    expect((await ask('GET', '/balance', { ...PAGE, cookie: mine.cookie })).code).toBe('unauthorized');
  });
});
