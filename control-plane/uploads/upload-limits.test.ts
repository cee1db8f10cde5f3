import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@semblance/common/logging';
import { type OpenedObjectStore, openObjectStore } from '@semblance/objects/open';
import { MediaKind } from '@semblance/proto/semblance/control/v1/control';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { setLimits } from '../accounts/limits.ts';
import { topUp } from '../billing/ledger.ts';
import { removeUploads } from '../media/removals.ts';
import { createUploads, type Uploads } from './uploads.ts';

const MB = 1_000_000;
/** What a form adds to its file. */
const FORM = 200;

let db: TestDatabase;
let folder: string;
let objects: OpenedObjectStore;
let uploads: Uploads;
beforeAll(async () => {
  db = await testDatabase();
  folder = await mkdtemp(join(tmpdir(), 'semblance-upload-limits-'));
  objects = openObjectStore({
    url: `file://${folder}`,
    signingKey: randomBytes(32),
    publicUrl: 'http://files.test',
  });
  uploads = createUploads({ database: db.database, objects, logger: silentLogger() });
});
afterAll(async () => {
  await objects.close();
  await rm(folder, { recursive: true });
  await db.close();
});

/** Creates an account with nothing stored. */
async function account(usd: number, limits: { storedMb?: number; dailyMb?: number }) {
  const { accountId } = await db.account(usd);
  await db.sql`delete from uploads where account_id = ${accountId}`;
  await db.sql`update account_uploads set day_bytes = 0 where account_id = ${accountId}`;
  await setLimits(db.sql, accountId, limits);
  return accountId;
}

/** What is known of the file in a form whose length is known. */
const declared = (bytes: number) => ({
  leastBytes: BigInt(Math.max(0, bytes + FORM - 1024 * 1024)),
  reserveBytes: BigInt(bytes + FORM),
});

const begin = (accountId: string, bytes: number) => uploads.begin(accountId, declared(bytes));

const complete = (accountId: string, fileKey: string, bytes: number) =>
  uploads.complete({
    fileKey,
    accountId,
    kind: MediaKind.MEDIA_KIND_VIDEO,
    contentType: 'video/mp4',
    sizeBytes: BigInt(bytes),
    sha256: createHash('sha256').update(fileKey).digest(),
    animated: false,
  });

/** Uploads a file, giving it up when it is refused. Returns its key, or the error. */
async function upload(accountId: string, bytes: number): Promise<string | Error> {
  try {
    const { fileKey } = await begin(accountId, bytes);
    try {
      await complete(accountId, fileKey, bytes);
      return fileKey;
    } catch (error) {
      await uploads.abort(fileKey, accountId);
      throw error;
    }
  } catch (error) {
    return error as Error;
  }
}

const taken = (results: readonly (string | Error)[]) => results.filter((each) => typeof each === 'string');

async function counted(accountId: string) {
  const [row] = await db.sql<{ stored: bigint; reserved: bigint; really: bigint; waiting: bigint }[]>`
    select a.stored_bytes as stored, a.reserved_bytes as reserved,
           coalesce(sum(u.size_bytes) filter (where u.completed_at is not null), 0)::bigint as really,
           coalesce(sum(u.reserved_bytes) filter (where u.completed_at is null and u.abandoned_at is null), 0)::bigint as waiting
    from account_uploads a left join uploads u on u.account_id = a.account_id
    where a.account_id = ${accountId} group by a.account_id`;
  return row;
}

test('of 32 uploads at once as many are taken as fit, to the byte', async () => {
  const accountId = await account(10, { storedMb: 100 });
  const results = await Promise.all(Array.from({ length: 32 }, () => upload(accountId, 10 * MB)));
  for (let more = taken(results).length; more < 10; more++) results.push(await upload(accountId, 10 * MB));
  expect(taken(results)).toHaveLength(10);
  for (const refused of results.filter((each) => each instanceof Error))
    expect(refused).toMatchObject({ code: 'at_capacity' });
  const full = BigInt(100 * MB);
  expect(await counted(accountId)).toEqual({ stored: full, reserved: 0n, really: full, waiting: 0n });
  expect(await upload(accountId, 1)).toMatchObject({
    code: 'at_capacity',
    message: expect.stringContaining('may have 100 MB together'),
  });
});

test('uploads under way leave no room for what would not fit beside them', async () => {
  const accountId = await account(10, { storedMb: 100 });
  const under = await Promise.allSettled(Array.from({ length: 32 }, () => begin(accountId, 30 * MB)));
  const begun = under.flatMap((each) => (each.status === 'fulfilled' ? [each.value.fileKey] : []));
  expect(begun).toHaveLength(3);
  expect((await counted(accountId))?.reserved).toBe(BigInt(3 * (30 * MB + FORM)));
  await uploads.abort(begun[0] as string, accountId);
  const { fileKey } = await begin(accountId, 30 * MB);
  await complete(accountId, fileKey, 30 * MB);
  expect(await counted(accountId)).toMatchObject({
    stored: BigInt(30 * MB),
    reserved: BigInt(2 * (30 * MB + FORM)),
  });
});

test('room for a file of unknown size is set aside as it arrives', async () => {
  const accountId = await account(10, { storedMb: 100 });
  const { fileKey, reservedBytes } = await uploads.begin(accountId);
  expect(reservedBytes).toBe(64n * 1024n * 1024n);
  expect(await uploads.extend(fileKey, accountId, BigInt(20 * MB))).toBe(reservedBytes + BigInt(20 * MB));
  expect(await uploads.extend(fileKey, accountId, BigInt(20 * MB))).toBe(BigInt(100 * MB));
  await expect(uploads.extend(fileKey, accountId, 1n)).rejects.toMatchObject({ code: 'at_capacity' });
  await expect(uploads.begin(accountId)).rejects.toMatchObject({ code: 'at_capacity' });
  await expect(complete(accountId, fileKey, 100 * MB + 1)).rejects.toMatchObject({ code: 'at_capacity' });
  await complete(accountId, fileKey, 100 * MB);
  await expect(uploads.extend(fileKey, accountId, 1n)).rejects.toMatchObject({ code: 'not_found' });
  const other = await account(10, {});
  const { fileKey: others } = await uploads.begin(other);
  await expect(uploads.extend(others, accountId, 1n)).rejects.toMatchObject({ code: 'not_found' });
});

test('what is deleted makes room', async () => {
  const accountId = await account(10, { storedMb: 10 });
  const key = (await upload(accountId, 10 * MB)) as string;
  expect(await upload(accountId, MB)).toMatchObject({ code: 'at_capacity' });
  await db.sql.begin((tx) => removeUploads(tx, accountId, [key], { by: 'retention' }));
  expect(await upload(accountId, 10 * MB)).toEqual(expect.any(String));
});

test('an account without money has a limit for each day, which deletions do not give back', async () => {
  const accountId = await account(0, { dailyMb: 10 });
  const results = await Promise.all(Array.from({ length: 32 }, () => upload(accountId, 2 * MB)));
  for (let more = taken(results).length; more < 5; more++) results.push(await upload(accountId, 2 * MB));
  const keys = taken(results) as string[];
  expect(keys).toHaveLength(5);
  await db.sql.begin((tx) => removeUploads(tx, accountId, keys, { by: 'retention' }));
  const refused = await upload(accountId, 2 * MB);
  expect(refused).toMatchObject({
    code: 'at_capacity',
    message: expect.stringContaining('may upload 10 MB a day'),
    retryAfterSeconds: expect.any(Number),
  });
  expect((refused as { retryAfterSeconds?: number }).retryAfterSeconds).toBeLessThanOrEqual(86_400);

  await db.sql`update account_uploads set day = day - 1 where account_id = ${accountId}`;
  expect(await upload(accountId, 10 * MB)).toEqual(expect.any(String));
  expect(await upload(accountId, MB)).toMatchObject({ code: 'at_capacity' });
  await topUp(db.sql, { accountId, amountMicros: 1n });
  expect(await upload(accountId, 20 * MB)).toEqual(expect.any(String));
});

test('money that is held by jobs is money', async () => {
  const { accountId, submission } = await db.account(0.06);
  await setLimits(db.sql, accountId, { dailyMb: 0 });
  await db.submitter()(submission());
  expect(await db.balances(accountId)).toMatchObject({ available: 0n });
  expect(await upload(accountId, MB)).toEqual(expect.any(String));
});

test('a setting that is null limits nobody but those with a limit of their own', async () => {
  await db.sql`update settings set stored_mb_per_account = null, daily_mb_without_money = null`;
  try {
    const [free, own] = [await account(0, {}), await account(0, { storedMb: 0 })];
    expect(await upload(free, 50_000 * MB)).toEqual(expect.any(String));
    expect(await upload(own, 1)).toMatchObject({ code: 'at_capacity' });
  } finally {
    await db.sql`update settings set stored_mb_per_account = default, daily_mb_without_money = default`;
  }
});

test('as shipped an account may have 20 GB, and without money 1 GB a day', async () => {
  const [rich, poor] = [await account(1, {}), await account(0, {})];
  expect(await upload(rich, 20_001 * MB)).toMatchObject({ message: expect.stringContaining('20 GB') });
  expect(await upload(poor, 1_001 * MB)).toMatchObject({ message: expect.stringContaining('1 GB') });
});

test('whatever happens at the same time, the counts are those of the files', async () => {
  const accounts = await Promise.all([1, 2, 3].map(() => account(10, { storedMb: 1_000 })));
  const { signal } = new AbortController();
  await Promise.all(
    Array.from({ length: 90 }, async (_, i) => {
      const accountId = accounts[i % 3] as string;
      const { fileKey } = await begin(accountId, (1 + (i % 7)) * MB);
      if (i % 5 === 0) await uploads.abort(fileKey, accountId);
      else if (i % 5 === 1)
        await db.sql`update uploads set reserved_at = now() - interval '3 hours' where file_key = ${fileKey}`;
      else await complete(accountId, fileKey, (1 + (i % 7)) * MB);
      if (i % 5 === 2)
        await db.sql.begin((tx) => removeUploads(tx, accountId, [fileKey], { by: 'retention' }));
      if (i % 9 === 0) await uploads.sweep(signal);
    }),
  );
  await Promise.all([uploads.sweep(signal), uploads.sweep(signal, 0)]);
  for (const accountId of accounts) {
    const row = await counted(accountId);
    expect(row).toMatchObject({ stored: row?.really, reserved: row?.waiting });
    expect(row?.stored).toBeGreaterThan(0n);
  }
});

test.each([
  ['more than most', { leastBytes: 2n, reserveBytes: 1n }],
  ['below nothing', { leastBytes: -1n, reserveBytes: 1n }],
])('a size of %s is invalid_input', async (_, size) => {
  const { accountId } = await db.account();
  await expect(uploads.begin(accountId, size)).rejects.toMatchObject({ code: 'invalid_input' });
});
