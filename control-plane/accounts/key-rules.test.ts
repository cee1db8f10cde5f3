import { Writable } from 'node:stream';
import { Metadata } from '@grpc/grpc-js';
import { createLogger } from '@semblance/common/logging';
import { SCOPES } from '@semblance/common/scopes';
import type { KeyRules } from '@semblance/proto/semblance/control/v1/keys';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hashKey, listKeys, setKey } from './accounts.ts';
import { createGate, RATE_LIMIT_KEY, usableKeys } from './gate.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

const rules = (more: Partial<KeyRules>): KeyRules => ({ scopes: [], ...more });
const addresses = (...ranges: string[]) => rules({ allowedAddresses: { ranges } });

/** Returns the code of both ways to judge a call, or `ok`. */
async function judged(
  keySha256: Buffer,
  from: { address?: string | undefined; scope?: string | undefined } = {},
): Promise<string> {
  const gate = createGate(db.database);
  const caller = { keySha256, scope: 'read', ...from };
  const codes = await Promise.all(
    [gate.admit(caller, new Metadata()), gate.check(caller)].map((judging) =>
      judging.then(
        () => 'ok',
        ({ code }) => String(code),
      ),
    ),
  );
  expect(codes[0]).toBe(codes[1]);
  return codes[0] as string;
}

describe('scopes', () => {
  test('a key may do what its scopes say; keys of before may do everything', async () => {
    const { caller, keyId } = await db.account();
    const all = () => Promise.all(SCOPES.map((scope) => judged(caller.keySha256, { scope })));
    expect(await all()).toEqual(['ok', 'ok', 'ok', 'ok']);
    for (const scope of SCOPES) {
      await setKey(db.sql, keyId, rules({ scopes: [scope] }));
      expect(await all()).toEqual(SCOPES.map((each) => (each === scope ? 'ok' : 'forbidden')));
    }
  });

  test('a gateway that names no scope may need any', async () => {
    const { caller, keyId } = await db.account();
    expect(await judged(caller.keySha256, { scope: undefined })).toBe('ok');
    await setKey(db.sql, keyId, rules({ scopes: ['submit', 'read', 'sessions'] }));
    expect(await judged(caller.keySha256, { scope: undefined })).toBe('forbidden');
  });

  test('the refusal names the scope, and counts as a call', async () => {
    const { caller, keyId } = await db.account(0, 5);
    await setKey(db.sql, keyId, rules({ scopes: ['read'] }));
    const trailers = new Metadata();
    const refused = createGate(db.database).admit({ ...caller, scope: 'submit' }, trailers);
    await expect(refused).rejects.toMatchObject({
      code: 'forbidden',
      httpStatus: 403,
      message: expect.stringContaining('"submit"'),
    });
    expect(String(trailers.get(RATE_LIMIT_KEY)[0])).toMatch(/^limit=5,remaining=4,/);
  });

  test.each([['everything'], ['Submit'], [''], ['__proto__'], ['read\u0000']])(
    '%j is no scope',
    async (scope) => {
      const { keyId } = await db.account();
      await expect(setKey(db.sql, keyId, rules({ scopes: ['read', scope] }))).rejects.toMatchObject({
        code: 'invalid_input',
      });
    },
  );
});

describe('expiry', () => {
  test('an expired key is answered like an unknown one, its links end, and a later end makes it valid again', async () => {
    const { caller, keyId } = await db.account();
    const expire = (seconds: number) =>
      db.sql`update api_keys set expires_at = now() + ${seconds} * interval '1 second' where id = ${keyId}`;
    await expire(60);
    expect(await judged(caller.keySha256)).toBe('ok');
    expect([...(await usableKeys(db.database, [keyId]))]).toEqual([keyId]);
    await expire(0);
    expect([...(await usableKeys(db.database, [keyId]))]).toEqual([]);
    const gate = createGate(db.database);
    const messageOf = (keySha256: Buffer) =>
      gate.admit({ keySha256 }, new Metadata()).then(
        () => undefined,
        (error: Error) => ({ ...error, message: error.message }),
      );
    expect(await messageOf(caller.keySha256)).toEqual(await messageOf(hashKey('sk_live_unknown')));
    expect(await judged(caller.keySha256)).toBe('unauthorized');
    await setKey(db.sql, keyId, rules({ expiresAt: '' }));
    await gate.admit(caller, new Metadata());
  });

  test.each([
    ['a moment that has passed', '2020-01-01'],
    ['no moment', 'tomorrow'],
    ['a day that is not', '2031-02-30'],
    ['the end of time', '9999-12-31T23:59:59Z'],
    ['a number', '1893456000'],
  ])('%s is refused', async (_what, expiresAt) => {
    const { keyId } = await db.account();
    await expect(setKey(db.sql, keyId, rules({ expiresAt }))).rejects.toMatchObject({
      code: 'invalid_input',
    });
  });
});

describe('addresses', () => {
  test.each<[range: string, inside: string[], outside: (string | undefined)[]]>([
    ['192.0.2.0/24', ['192.0.2.0', '192.0.2.255'], ['192.0.3.0', '2001:db8::1', '::ffff:c000:0207']],
    ['192.0.2.7', ['192.0.2.7'], ['192.0.2.8', undefined, '', 'unknown', "1'; --"]],
    ['2001:db8::/32', ['2001:db8::1', '2001:db8:ffff::'], ['2001:db9::', '32.1.13.184', '192.0.2.7']],
    ['::ffff:192.0.2.0/120', ['192.0.2.9'], ['192.0.3.9']],
    ['0.0.0.0/0', ['255.255.255.255'], ['::1']],
  ])('a key for %s', async (range, inside, outside) => {
    const { caller, keyId } = await db.account();
    await setKey(db.sql, keyId, addresses(range));
    for (const address of inside)
      expect(await judged(caller.keySha256, { address }), String(address)).toBe('ok');
    for (const address of outside)
      expect(await judged(caller.keySha256, { address }), String(address)).toBe('unauthorized');
    await setKey(db.sql, keyId, addresses());
    for (const address of [...inside, ...outside])
      expect(await judged(caller.keySha256, { address }), String(address)).toBe('ok');
  });

  test('calls from elsewhere use nothing of the limit up, are judged beside others, and the owner reads of them', async () => {
    const { caller, keyId } = await db.account(0, 2);
    await setKey(db.sql, keyId, addresses('192.0.2.0/24', '198.51.100.1'));
    const lines: Record<string, unknown>[] = [];
    const destination = new Writable({
      write(chunk, _encoding, done) {
        lines.push(JSON.parse(String(chunk)));
        done();
      },
    });
    const gate = createGate(
      db.database,
      createLogger({ service: 'control-plane', level: 'info', destination }),
    );
    const from = ['192.0.2.1', '203.0.113.9', '198.51.100.1', '203.0.113.9', '192.0.2.1'];
    const verdicts = await gate.admitAll(
      from.map((address) => ({ caller: { ...caller, address, scope: 'read' } })),
    );
    expect(
      verdicts.map(({ refusal, rateLimit }) => [refusal?.code ?? 'ok', rateLimit.replace(/,reset.*/, '')]),
    ).toEqual([
      ['ok', 'limit=2,remaining=1'],
      ['unauthorized', ''],
      ['ok', 'limit=2,remaining=0'],
      ['unauthorized', ''],
      ['rate_limited', 'limit=2,remaining=0'],
    ]);
    expect(lines).toMatchObject([
      { keyId, address: '203.0.113.9', msg: 'refused an API key: it is not for the address of the call' },
      { keyId },
    ]);
  });

  test('a key shows its rules', async () => {
    const { accountId, keyId } = await db.account();
    await setKey(db.sql, keyId, {
      scopes: ['read', 'submit', 'read'],
      expiresAt: '2031-01-31T09:30:00Z',
      allowedAddresses: { ranges: ['::ffff:192.0.2.0/120', '2001:db8::1'] },
    });
    expect(await listKeys(db.sql, { accountId })).toMatchObject([
      {
        scopes: ['submit', 'read'],
        expiresAt: '2031-01-31T09:30:00.000Z',
        allowedAddresses: ['192.0.2.0/24', '2001:db8::1/128'],
      },
    ]);
    await expect(setKey(db.sql, 'key-none', rules({}))).rejects.toMatchObject({ code: 'not_found' });
  });
});
