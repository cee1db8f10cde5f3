import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { CompactSign, exportJWK, generateKeyPair } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { publicKeys, signingKey } from './receipt-keys.ts';
import { listReceipts } from './receipts.ts';
import { verifyReceipts } from './verify-receipt.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

async function deleted(accountId: string, key: string) {
  await db.sql`
    insert into media_deletions (object_key, kind, account_id, size_bytes, sha256, removed_by, removed_at)
    values (${key}, 'upload', ${accountId}, 7, ${'ab'.repeat(32)}, 'owner', now())`;
}

test('of several processes that need the key at once, all sign with one, which is published without its secret', async () => {
  const keys = await Promise.all(Array.from({ length: 8 }, () => signingKey(db.sql)));
  expect(new Set(keys.map(({ id }) => id)).size).toBe(1);
  const { keys: known } = await publicKeys(db.sql);
  expect(known).toEqual([
    {
      kty: 'OKP',
      crv: 'Ed25519',
      x: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
      kid: keys[0]?.id,
      use: 'sig',
      alg: 'EdDSA',
    },
  ]);
});

test('receipts of a key that has retired are still proven', async () => {
  const { accountId } = await db.account();
  await deleted(accountId, 'api/up-old');
  const old = await listReceipts(db.sql, accountId, { limit: 1 });
  await db.sql`update receipt_keys set retired_at = now()`;
  const fresh = await listReceipts(db.sql, accountId, { limit: 1 });
  const keys = await publicKeys(db.sql);
  expect(keys.keys).toHaveLength(2);
  expect(fresh.receipts[0]?.jws).not.toBe(old.receipts[0]?.jws);
  for (const { receipts } of [old, fresh])
    expect(await verifyReceipts(receipts, keys)).toEqual([JSON.parse(receipts[0]?.statementJson ?? '')]);
});

test('what another key signed, what was changed, and what is no receipt prove nothing', async () => {
  const { accountId } = await db.account();
  await deleted(accountId, 'api/up-x');
  const { receipts } = await listReceipts(db.sql, accountId, { limit: 1 });
  const { jws = '', statementJson = '' } = receipts[0] ?? {};
  const statement = JSON.parse(statementJson);
  const keys = await publicKeys(db.sql);
  const { id: kid } = await signingKey(db.sql);
  const { privateKey, publicKey } = await generateKeyPair('EdDSA', { crv: 'Ed25519', extractable: true });
  const signed = (content: object, header: object) =>
    new CompactSign(Buffer.from(JSON.stringify(content)))
      .setProtectedHeader({ alg: 'EdDSA', kid, typ: 'deletion-receipt+jws', ...header })
      .sign(privateKey);
  const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const [header, payload, signature] = jws.split('.');
  const own = { keys: [{ ...(await exportJWK(publicKey)), kid, alg: 'EdDSA' }] };
  const other = { ...statement, size_bytes: 8 };
  expect(await verifyReceipts([{ jws, statement }, { jws }], keys)).toEqual([statement, statement]);
  const cases: [string, unknown, unknown][] = [
    ['a changed statement beside the signature', { jws, statement: other }, keys],
    ['a changed statement in the signature', { jws: `${header}.${encoded(other)}.${signature}` }, keys],
    ['the signature of another key', { jws: await signed(statement, {}) }, keys],
    ['no signature', { jws: `${encoded({ alg: 'none', kid })}.${payload}.` }, keys],
    ['keys of somebody else', { jws }, own],
    ['a signature of something else', { jws: await signed(statement, { typ: 'JWT' }) }, own],
    ['no keys', { jws }, { keys: [] }],
    ['a list as keys', { jws }, []],
    ['null as keys', { jws }, null],
    ['one good receipt and one without a signature', [{ jws }, {}], keys],
    ['an empty page', { receipts: [] }, keys],
    ['null', null, keys],
    ['a text', 'x', keys],
    ['a number as the signature', { jws: 1 }, keys],
  ];
  for (const [what, receipt, under] of cases)
    await expect(verifyReceipts(receipt, under), what).rejects.toMatchObject({ code: 'invalid_receipt' });
});
