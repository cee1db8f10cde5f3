import { Metadata } from '@grpc/grpc-js';
import { silentLogger } from '@semblance/common/logging';
import { AdminServiceService } from '@semblance/proto/semblance/admin/v1/admin';
import { type Issuer, startIssuer } from '@semblance/testkit/control-plane/issuer';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAdminGate } from './gate.ts';
import { createOidc } from './oidc.ts';
import { type AdminMethod, LEAST_ROLE, ROLES } from './roles.ts';
import { createToken, listTokens, revokeToken, rotateToken } from './tokens.ts';

const BOOTSTRAP = 'the bootstrap token of this test';

let db: TestDatabase;
let issuer: Issuer;
beforeAll(async () => {
  [db, issuer] = await Promise.all([testDatabase(), startIssuer('admin')]);
});
afterAll(async () => {
  await Promise.all([db.close(), issuer.close()]);
});

function gate() {
  const refused: string[] = [];
  let nowMs = 0;
  const { admit } = createAdminGate({
    sql: db.sql,
    bootstrapToken: BOOTSTRAP,
    oidc: createOidc({
      issuer: issuer.url,
      audience: 'admin',
      nameClaim: 'sub',
      roleClaim: 'groups',
      roles: { support: ['helpdesk'] },
    }),
    logger: silentLogger(),
    onRefused: (reason) => refused.push(reason),
    now: () => nowMs,
  });
  return {
    refused,
    pass: (ms: number) => {
      nowMs += ms;
    },
    ask(token: string | undefined, method: AdminMethod = 'ShowAccount', peer = '10.0.0.1:5000') {
      const metadata = new Metadata();
      if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
      return admit(method, { metadata, peer });
    },
  };
}

let number = 0;
const make = (role: string, lifetimeSeconds: bigint | undefined = 3_600n) =>
  db.sql.begin((tx) => createToken(tx, { name: `token-${++number}`, role, lifetimeSeconds }));
const UNAUTHORIZED = { code: 'unauthorized' };

test('the bootstrap token is an owner of that name', async () => {
  expect(await gate().ask(BOOTSTRAP, 'TopUpAccount')).toEqual({
    name: 'bootstrap',
    role: 'owner',
    tokenId: undefined,
  });
});

test('a named token calls what its role may, and nothing else, of every method', async () => {
  const methods = Object.values(AdminServiceService).map(({ path }) => path.split('/').at(-1) as AdminMethod);
  expect(Object.keys(LEAST_ROLE).sort()).toEqual([...methods].sort());
  for (const [rank, role] of ROLES.entries()) {
    const { token, secret } = await make(role);
    const { ask, refused } = gate();
    const outcomes = await Promise.allSettled(methods.map((method) => ask(secret, method)));
    for (const [i, outcome] of outcomes.entries()) {
      const method = methods[i] as AdminMethod;
      const may = rank >= ROLES.indexOf(LEAST_ROLE[method]);
      expect(outcome, `${role} ${method}`).toMatchObject(
        may
          ? { value: { name: token?.name, role, tokenId: token?.tokenId } }
          : { reason: { ...UNAUTHORIZED, message: expect.stringContaining(`${method} needs the role`) } },
      );
    }
    expect(refused).toEqual(
      Array(outcomes.filter(({ status }) => status === 'rejected').length).fill('role'),
    );
  }
});

test.each([
  ['none', undefined, 'missing'],
  ['an empty one', '', 'missing'],
  ['a wrong one', 'nonsense', 'unknown'],
  ['one that never was', `sat_${'x'.repeat(43)}`, 'unknown'],
  ['one beyond all measure', `sat_${'x'.repeat(100_000)}`, 'unknown'],
  ['the bootstrap token and more', `${BOOTSTRAP}x`, 'unknown'],
  ['what looks like a JWT', 'a.b.c', 'oidc'],
])('%s as token is refused, and counted', async (_, token, reason) => {
  const { ask, refused } = gate();
  await expect(ask(token)).rejects.toMatchObject(UNAUTHORIZED);
  expect(refused).toEqual([reason]);
});

test('a token ends with its time, when it is revoked, and when it is replaced', async () => {
  const { ask, refused } = gate();
  const { token, secret } = await make('support');
  const id = token?.tokenId ?? '';
  const rotated = await db.sql.begin((tx) => rotateToken(tx, id));
  await expect(ask(secret)).rejects.toMatchObject(UNAUTHORIZED);
  expect(await ask(rotated.secret)).toMatchObject({ tokenId: id });
  await db.sql`
    update admin_tokens set issued_at = now() - interval '2 hours', expires_at = now() - interval '1 hour' where id = ${id}`;
  await expect(ask(rotated.secret)).rejects.toMatchObject({ message: expect.stringContaining('is expired') });
  const again = await db.sql.begin((tx) => rotateToken(tx, id));
  const lasts = Date.parse(again.token?.expiresAt ?? '') - Date.parse(again.token?.issuedAt ?? '');
  expect(lasts).toBe(3_600_000);
  expect(await ask(again.secret)).toMatchObject({ tokenId: id });
  await db.sql.begin((tx) => revokeToken(tx, id));
  await expect(ask(again.secret)).rejects.toMatchObject({ message: expect.stringContaining('is revoked') });
  await expect(db.sql.begin((tx) => rotateToken(tx, id))).rejects.toMatchObject({ code: 'invalid_input' });
  expect(refused).toEqual(['unknown', 'expired', 'revoked']);
});

test('the last use is kept, to the minute', async () => {
  const { ask } = gate();
  const { token, secret } = await make('read-only', undefined);
  const lastUse = async () =>
    (await listTokens(db.sql)).find(({ tokenId }) => tokenId === token?.tokenId)?.lastUsedAt;
  expect(await lastUse()).toBeUndefined();
  await ask(secret);
  const first = await lastUse();
  expect(first).toBeDefined();
  await ask(secret);
  expect(await lastUse()).toBe(first);
  await db.sql`update admin_tokens set last_used_at = now() - interval '61 seconds' where id = ${token?.tokenId ?? ''}`;
  await ask(secret);
  expect(Date.parse((await lastUse()) ?? '')).toBeGreaterThanOrEqual(Date.parse(first ?? ''));
});

test.each([
  ['a name with a space', { name: 'a b' }],
  ['an empty name', { name: '' }],
  ['a name in capitals', { name: 'Ada' }],
  ['a name beyond all measure', { name: 'x'.repeat(64) }],
  ['the name of the first token', { name: 'bootstrap' }],
  ['a name as of an issuer', { name: 'oidc:ada' }],
  ['no such role', { role: 'admin' }],
  ['an inherited name as role', { role: 'constructor' }],
  ['no lifetime', { lifetimeSeconds: 0n }],
  ['a negative lifetime', { lifetimeSeconds: -1n }],
  ['a lifetime beyond all measure', { lifetimeSeconds: 2n ** 62n }],
])('%s makes no token', async (_, more) => {
  const asked = { name: 'fine', role: 'owner', lifetimeSeconds: 3_600n, ...more };
  await expect(db.sql.begin((tx) => createToken(tx, asked))).rejects.toMatchObject({ code: 'invalid_input' });
});

test('a name is taken for ever, however many ask for it at once', async () => {
  const asked = { name: 'only.one', role: 'owner', lifetimeSeconds: undefined };
  const made = await Promise.allSettled(
    Array.from({ length: 10 }, () => db.sql.begin((tx) => createToken(tx, asked))),
  );
  const [one] = made.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  await db.sql.begin((tx) => revokeToken(tx, one?.token?.tokenId ?? ''));
  await expect(db.sql.begin((tx) => createToken(tx, asked))).rejects.toMatchObject({ code: 'invalid_input' });
});

test('a token of the issuer is admitted as its holder', async () => {
  const { ask, refused } = gate();
  const token = await issuer.sign({ groups: ['helpdesk'] });
  expect(await ask(token, 'EndSession')).toEqual({ name: 'oidc:ada', role: 'support', tokenId: undefined });
  await expect(ask(token, 'TopUpAccount')).rejects.toMatchObject(UNAUTHORIZED);
  expect(refused).toEqual(['role']);
});

test('an address that is refused often is held back, whatever it sends, but for tokens known to be good', async () => {
  const { ask, refused, pass } = gate();
  const { secret } = await make('read-only');
  await ask(secret);
  for (let i = 0; i < 10; i++) await expect(ask(`guess-${i}`)).rejects.toMatchObject(UNAUTHORIZED);
  for (const token of ['another guess', BOOTSTRAP, undefined])
    await expect(ask(token)).rejects.toMatchObject({ code: 'rate_limited' });
  expect(await ask(secret)).toMatchObject({ role: 'read-only' });
  expect(await ask(BOOTSTRAP, 'ShowAccount', '10.0.0.2:5000')).toMatchObject({ name: 'bootstrap' });
  await expect(ask('guess', 'ShowAccount', '10.0.0.1:6000')).rejects.toMatchObject({ code: 'rate_limited' });
  expect(refused).toEqual([...Array(10).fill('unknown'), ...Array(4).fill('throttled')]);
  pass(6_000);
  expect(await ask(BOOTSTRAP)).toMatchObject({ name: 'bootstrap' });
  await expect(ask('one more')).rejects.toMatchObject(UNAUTHORIZED);
  await expect(ask('and one')).rejects.toMatchObject({ code: 'rate_limited' });
});
