import { type Answer, type Api, apiOf } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let account: Account;
let anonymous: Api;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount();
  anonymous = apiOf({ baseUrl: stack.api.baseUrl });
}, 240_000);

const CALLS: [string, (api: Api) => Promise<Answer>][] = [
  ['POST /uploads', (api) => api.multipart([{ name: 'file', filename: 'a.png', body: 'x' }])],
  ['POST /face-swap-image', (api) => api.post('/face-swap-image', { image_key: 'api/a', face_key: 'api/b' })],
  ['POST /character-swap', (api) => api.post('/character-swap', {})],
  ['POST /face-swap', (api) => api.post('/face-swap', {})],
  ['POST /motion-control', (api) => api.post('/motion-control', {})],
  ['POST /avatar', (api) => api.post('/avatar', {})],
  ['POST /lip-sync', (api) => api.post('/lip-sync', {})],
  ['GET /jobs/{job_id}', (api) => api.get('/jobs/job_unknown')],
  ['POST /full-live-swap/session', (api) => api.post('/full-live-swap/session', {})],
  ['POST /voice/session', (api) => api.post('/voice/session', {})],
  ['GET /voices', (api) => api.get('/voices')],
  ['GET /balance', (api) => api.get('/balance')],
];

describe('A missing, unknown or revoked key yields `unauthorized` (401)', () => {
  test.each(CALLS)('missing: %s', async (_name, call) => {
    expectError(await call(anonymous), 'unauthorized');
  });

  test.each(CALLS)('unknown: %s', async (_name, call) => {
    const stranger = apiOf({ baseUrl: stack.api.baseUrl, apiKey: `${account.apiKey.slice(0, -4)}AAAA` });
    expectError(await call(stranger), 'unauthorized');
  });

  test('revoked, from the moment of revocation, while another key of the account stays good', async () => {
    const second = await stack.admin('key', 'create', { account: account.accountId });
    const api = apiOf({ baseUrl: stack.api.baseUrl, apiKey: String(second.api_key) });
    expect((await api.get('/balance')).status).toBe(200);
    await stack.admin('key', 'revoke', { key: String(second.key_id) });
    expectError(await api.get('/balance'), 'unauthorized');
    expectError(await api.get('/pricing'), 'unauthorized');
    expect((await account.api.get('/balance')).status).toBe(200);
  });

  test.each([
    ['an empty header', ''],
    ['the scheme alone', 'Bearer'],
    ['the scheme and a space', 'Bearer '],
    ['another scheme', 'Basic dXNlcjpwYXNz'],
    ['the bare key', 'KEY'],
    ['something after the key', 'Bearer KEY and more'],
    ['two keys', 'Bearer KEY, Bearer KEY'],
    ['bytes that are no token', 'Bearer \u00ff\u00fe'],
    ['a very long key', `Bearer ${'k'.repeat(8_000)}`],
  ])('malformed: %s', async (_name, header) => {
    const authorization = header.replaceAll('KEY', account.apiKey);
    expectError(await anonymous.get('/balance', { authorization }), 'unauthorized');
  });

  test('a key in the query string is not a bearer header', async () => {
    expectError(await anonymous.get(`/balance?api_key=${account.apiKey}`), 'unauthorized');
    expectError(await anonymous.get(`/balance?access_token=${account.apiKey}`), 'unauthorized');
  });

  test('the answer names the scheme, as HTTP asks of every 401', async () => {
    const answer = await anonymous.get('/balance');
    expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer\b/);
  });
});

test('Every request carries the header `Authorization: Bearer <API_KEY>`; the scheme is read in any case', async () => {
  for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
    const answer = await anonymous.get('/balance', { authorization: `${scheme} ${account.apiKey}` });
    expect(answer.status, scheme).toBe(200);
  }
});

test('The key is a secret: no answer and no header repeats it', async () => {
  for (const path of ['/balance', '/pricing', '/jobs/none', '/nowhere']) {
    const answer = await account.api.get(path);
    expect(answer.text).not.toContain(account.apiKey);
    expect(JSON.stringify([...answer.headers])).not.toContain(account.apiKey);
  }
});
