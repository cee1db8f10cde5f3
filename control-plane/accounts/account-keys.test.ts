import { Metadata } from '@grpc/grpc-js';
import type { KeyRules } from '@semblance/proto/semblance/control/v1/keys';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { capsSet } from '../admin/cap-changes.ts';
import { setAccountCaps } from '../billing/account-caps.ts';
import {
  createAccountKey,
  listAccountKeys,
  MAX_KEYS,
  revokeAccountKey,
  setAccountKey,
} from './account-keys.ts';
import { hashKey, revokeKey, setKey } from './accounts.ts';
import { createGate } from './gate.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

const rules = (more: Partial<KeyRules> = {}): KeyRules => ({ scopes: [], ...more });
const ranges = (...list: string[]) => ({ allowedAddresses: { ranges: list } });
type Asker = { readonly accountId: string; readonly keyId: string };

const create = async (asker: Asker, more: Partial<KeyRules> = {}) =>
  (await db.sql.begin((tx) => createAccountKey(tx, asker, { rules: rules(more) }))).result;
const change = async (asker: Asker, keyId: string, more: Partial<KeyRules>) =>
  (await db.sql.begin((tx) => setAccountKey(tx, asker, { keyId, rules: rules(more) }))).result;

/** The rules of a key that may grant some of everything. */
const LIMITED: KeyRules = {
  scopes: ['account', 'submit', 'read'],
  expiresAt: '2040-06-01',
  ...ranges('192.0.2.0/24', '2001:db8::/32'),
  capDayMicros: 5_000_000n,
  capMonthMicros: 50_000_000n,
};

const BEYOND: readonly [what: string, rules: Partial<KeyRules>][] = [
  ['another scope', { scopes: ['read', 'sessions'] }],
  ['no end', { expiresAt: '' }],
  ['a later end', { expiresAt: '2040-06-01T00:00:00.000001Z' }],
  ['every address', ranges()],
  ['a wider network', ranges('192.0.2.0/23')],
  ['another network beside one of its own', ranges('192.0.2.0/25', '198.51.100.1')],
  ['all of IPv4', ranges('0.0.0.0/0')],
  ['no cap of a day', { capDayMicros: -1n }],
  ['a micro-dollar more a day', { capDayMicros: 5_000_001n }],
  ['a micro-dollar more a month', { capMonthMicros: 50_000_001n }],
];

describe('a key grants no more than it has', () => {
  test.each(BEYOND)('%s is refused to a new key and to itself, and nothing is made', async (_what, more) => {
    const asker = await db.account();
    await setKey(db.sql, asker.keyId, LIMITED);
    await expect(create(asker, more)).rejects.toMatchObject({ code: 'forbidden' });
    await expect(change(asker, asker.keyId, more)).rejects.toMatchObject({ code: 'forbidden' });
    const made = await create(asker);
    await expect(change(asker, made.key.keyId, more)).rejects.toMatchObject({ code: 'forbidden' });
    expect(await listAccountKeys(db.sql, asker.accountId)).toHaveLength(2);
  });

  test('what is left out of a new key is as with its maker, and within it everything is granted', async () => {
    const asker = await db.account(10, 7);
    await setKey(db.sql, asker.keyId, LIMITED);
    const { key, apiKey } = await create(asker);
    expect(key).toMatchObject({
      scopes: ['submit', 'read', 'account'],
      expiresAt: '2040-06-01T00:00:00.000Z',
      allowedAddresses: ['192.0.2.0/24', '2001:db8::/32'],
      caps: [{ capMicros: 5_000_000n }, { capMicros: 50_000_000n }],
      perMinute: 7,
      madeBy: asker.keyId,
    });
    const narrow = {
      scopes: ['read'],
      expiresAt: '2040-05-31',
      ...ranges('192.0.2.128/25', '2001:db8::1', '::ffff:192.0.2.7'),
      capDayMicros: 0n,
      capMonthMicros: 50_000_000n,
    };
    expect((await create(asker, narrow)).key).toMatchObject({ scopes: ['read'], perMinute: 7 });
    const gate = createGate(db.database);
    const caller = { keySha256: hashKey(apiKey), address: '192.0.2.5', scope: 'read' };
    expect((await gate.admit(caller, new Metadata())).keyId).toBe(key.keyId);
  });

  test('any key is narrowed; a wide one is not widened again, nor one that a capped key did not make', async () => {
    const asker = await db.account();
    const other = await create(asker, { capDayMicros: 1_000_000n });
    const wide = await create(asker, { scopes: ['submit', 'account', 'read', 'sessions'] });
    await setKey(db.sql, asker.keyId, LIMITED);
    expect(await change(asker, wide.key.keyId, { scopes: ['sessions', 'read'] })).toMatchObject({
      scopes: ['read', 'sessions'],
    });
    // Its other rules are beyond those of the asker.
    await expect(change(asker, wide.key.keyId, { scopes: ['read', 'submit'] })).rejects.toMatchObject({
      code: 'forbidden',
    });
    const within = { ...LIMITED, capDayMicros: 1_000_000n };
    await change(asker, other.key.keyId, within);
    await change(asker, other.key.keyId, { capDayMicros: 2_000_000n });
    await db.sql`update api_keys set made_by = '{}' where id = ${other.key.keyId}`;
    await expect(change(asker, other.key.keyId, { capDayMicros: 3_000_000n })).rejects.toMatchObject({
      code: 'forbidden',
      message: expect.stringContaining('that it made'),
    });
  });

  test('what its keys spend, and theirs, counts toward its cap: 32 submits at once with three keys', async () => {
    const asker = await db.account();
    await setKey(db.sql, asker.keyId, rules({ capDayMicros: 6n * 60_000n }));
    const child = await create(asker);
    const grandchild = await create({ accountId: asker.accountId, keyId: child.key.keyId });
    const keys = [asker.keyId, child.key.keyId, grandchild.key.keyId];
    const submit = db.submitter();
    const results = await Promise.allSettled(
      Array.from({ length: 32 }, (_, i) => submit({ ...asker.submission(), keyId: keys[i % 3] as string })),
    );
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(6);
    await expect(submit({ ...asker.submission(), keyId: grandchild.key.keyId })).rejects.toMatchObject({
      message: expect.stringMatching(/^The cap of (this key|the key that made this one), 0\.36 USD a day/),
    });
  });
});

describe('keys of an account', () => {
  test('are its own: no other account sees, changes or revokes them', async () => {
    const [asker, stranger] = [await db.account(), await db.account()];
    const revoke = (keyId: string) => db.sql.begin((tx) => revokeAccountKey(tx, stranger, keyId));
    const calls = [
      () => change(stranger, asker.keyId, { scopes: ['read'] }),
      () => revoke(asker.keyId),
      () => revoke('key-\u0000'),
    ];
    for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'not_found' });
    expect((await listAccountKeys(db.sql, stranger.accountId)).map(({ keyId }) => keyId)).toEqual([
      stranger.keyId,
    ]);
  });

  test('a key that was revoked or lost its scope since its call was admitted changes nothing', async () => {
    const asker = await db.account();
    await setKey(db.sql, asker.keyId, rules({ scopes: ['read'] }));
    await expect(create(asker)).rejects.toMatchObject({ code: 'forbidden' });
    await revokeKey(db.sql, asker.keyId);
    await expect(create(asker)).rejects.toMatchObject({ code: 'unauthorized' });
  });

  test('are at most so many, however many are asked for at once', async () => {
    const asker = await db.account();
    await db.sql`
      insert into api_keys (id, account_id, secret_sha256)
      select ${asker.keyId} || n, ${asker.accountId}, sha256(convert_to(${asker.keyId} || n, 'UTF8'))
      from generate_series(1, ${MAX_KEYS - 3}::int) n`;
    const made = await Promise.allSettled(Array.from({ length: 6 }, () => create(asker)));
    expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
    for (const each of made)
      if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'at_capacity' });
  });
});

test('a holder sets caps of the account up to those of the owner, and the lower counts', async () => {
  const { accountId, submission, keyId } = await db.account();
  const set = (capDayMicros: bigint) => db.sql.begin((tx) => setAccountCaps(tx, accountId, { capDayMicros }));
  const submit = () => db.submitter()({ ...submission(), keyId });
  await set(1_000_000n);
  await db.sql.begin((tx) => capsSet(tx, { accountId, caps: { capDayMicros: 60_000n } }));
  await submit();
  await expect(submit()).rejects.toMatchObject({ message: expect.stringContaining('0.06 USD a day') });
  await expect(set(60_001n)).rejects.toMatchObject({ code: 'forbidden' });
  await set(59_999n);
  await set(-1n);
  await expect(submit()).rejects.toMatchObject({ message: expect.stringContaining('0.06 USD a day') });
});
