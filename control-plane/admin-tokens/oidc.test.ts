import { createSecretKey } from 'node:crypto';
import { type Issuer, startIssuer } from '@semblance/testkit/control-plane/issuer';
import { generateKeyPair, UnsecuredJWT } from 'jose';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createOidc, isSafe, type OidcSettings } from './oidc.ts';

const AUDIENCE = 'semblance-admin';

let issuer: Issuer;
beforeEach(async () => {
  issuer = await startIssuer(AUDIENCE);
});
afterEach(() => issuer.close());

const oidc = (more: Partial<OidcSettings> = {}) =>
  createOidc({
    issuer: issuer.url,
    audience: AUDIENCE,
    nameClaim: 'sub',
    roleClaim: 'groups',
    roles: { owner: ['platform'], support: ['helpdesk', 'night'], 'read-only': ['auditors'] },
    ...more,
  });
const seconds = (more: number) => Math.floor(Date.now() / 1000) + more;

test('a token of the issuer is its holder, with the role that a claim gives', async () => {
  const { verify, looksLike } = oidc();
  const token = await issuer.sign({ groups: ['all', 'night'] });
  expect(looksLike(token)).toBe(true);
  expect(await verify(token)).toEqual({ name: 'oidc:ada', role: 'support' });
  expect(await verify(await issuer.sign({ groups: 'auditors' }))).toMatchObject({ role: 'read-only' });
  expect(await verify(await issuer.sign({ groups: ['auditors', 'platform', 'night'] }))).toMatchObject({
    role: 'owner',
  });
  expect(issuer.asked).toEqual(['/.well-known/openid-configuration', '/keys']);
});

test('claims are found by name or by path', async () => {
  const nested = oidc({ roleClaim: 'realm_access.roles', nameClaim: 'email' });
  const claims = { email: 'ada@example.com', realm_access: { roles: ['platform'] } };
  expect(await nested.verify(await issuer.sign(claims))).toEqual({
    name: 'oidc:ada@example.com',
    role: 'owner',
  });
  const named = oidc({ roleClaim: 'https://example.com/roles' });
  expect(await named.verify(await issuer.sign({ 'https://example.com/roles': ['night'] }))).toMatchObject({
    role: 'support',
  });
});

test.each<[string, Record<string, unknown>, RegExp]>([
  ['another audience', { aud: 'another' }, /aud/],
  ['no audience', { aud: undefined }, /aud/],
  ['another issuer', { iss: 'https://login.example.com' }, /iss/],
  ['no end', { exp: undefined }, /exp/],
  ['an end that is past', { exp: seconds(-60) }, /exp/],
  ['a beginning to come', { nbf: seconds(60) }, /nbf/],
  ['no subject', { sub: undefined }, /sub/],
  ['no role', { groups: ['others'] }, /gives no role/],
  ['no role claim', { groups: undefined }, /gives no role/],
  ['an object as role', { groups: { platform: true } }, /gives no role/],
  ['a subject that moves the cursor', { sub: 'a\u001b[2J' }, /no name/],
  ['a subject beyond all measure', { sub: 'x'.repeat(300) }, /no name/],
  ['an empty subject', { sub: '' }, /no name/],
])('a token with %s is refused', async (_, claims, why) => {
  const { verify } = oidc();
  await expect(verify(await issuer.sign({ groups: ['platform'], ...claims }))).rejects.toThrow(why);
});

test('a token that the issuer did not sign is refused, however it is made', async () => {
  const { verify } = oidc();
  const claims = { groups: ['platform'] };
  const own = await generateKeyPair('ES256');
  await expect(verify(await issuer.sign(claims, { key: own.privateKey }))).rejects.toThrow(/signature/);
  const shared = createSecretKey(Buffer.alloc(32)) as never;
  await expect(verify(await issuer.sign(claims, { key: shared, alg: 'HS256' }))).rejects.toThrow(/alg/);
  const good = await issuer.sign(claims);
  const [head, , signature] = good.split('.');
  const other = (await issuer.sign({ ...claims, sub: 'eve' })).split('.')[1];
  await expect(verify([head, other, signature].join('.'))).rejects.toThrow(/signature/);
  const none = new UnsecuredJWT({ ...claims, sub: 'ada' })
    .setIssuer(issuer.url)
    .setAudience(AUDIENCE)
    .encode();
  expect(oidc().looksLike(none)).toBe(false);
  await expect(verify(none)).rejects.toThrow();
});

test('new keys of the issuer are fetched when a token names one', async () => {
  const { verify } = oidc();
  await verify(await issuer.sign({ groups: ['platform'] }));
  const old = await issuer.sign({ groups: ['platform'] });
  await issuer.rotate();
  // jose fetches keys again at most every 30 s; a process that starts now has the new ones.
  const later = oidc();
  expect(await later.verify(await issuer.sign({ groups: ['platform'] }))).toMatchObject({ role: 'owner' });
  await expect(later.verify(old)).rejects.toThrow();
});

test.each<[string, Record<string, unknown>, RegExp]>([
  ['of another issuer', { issuer: 'https://login.example.com' }, /another issuer/],
  ['with keys in the open', { jwks_uri: 'http://login.example.com/keys' }, /over https/],
  ['without keys', { jwks_uri: undefined }, /over https/],
])('a discovery document %s is refused', async (_, discovery, why) => {
  issuer.discovery = discovery;
  const { verify } = oidc();
  const token = await issuer.sign({ groups: ['platform'] });
  await expect(verify(token)).rejects.toThrow(why);
  await expect(verify(token)).rejects.toThrow(/did not answer a moment ago/);
  expect(issuer.asked).toHaveLength(1);
});

test('what has not the form of a JWT is not taken for one', () => {
  const { looksLike } = oidc();
  for (const text of ['', 'sat_abc', 'a.b', 'a.b.c.d', 'a.b.c d', `${'a'.repeat(20_000)}.b.c`])
    expect(looksLike(text)).toBe(false);
});

test.each([
  ['https://login.example.com', true],
  ['http://127.0.0.1:8080', true],
  ['http://login.example.com', false],
  ['http://127.0.0.1.example.com', false],
  ['file:///etc/passwd', false],
])('%s is safe: %s', (url, safe) => expect(isSafe(new URL(url))).toBe(safe));
