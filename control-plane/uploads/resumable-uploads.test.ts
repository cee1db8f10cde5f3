import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { silentLogger } from '@semblance/common/logging';
import { type OpenedObjectStore, openObjectStore } from '@semblance/objects/open';
import { MediaKind } from '@semblance/proto/semblance/control/v1/control';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { createResumableUploads, type ResumableUploads } from './resumable-uploads.ts';
import { createUploads, type Uploads } from './uploads.ts';

let db: TestDatabase;
let folder: string;
let objects: OpenedObjectStore;
let uploads: Uploads;
let resumable: ResumableUploads;
let accountId: string;
const signal = new AbortController().signal;

beforeAll(async () => {
  db = await testDatabase();
  folder = await mkdtemp(join(tmpdir(), 'semblance-resumable-'));
  objects = openObjectStore({
    url: `file://${folder}`,
    signingKey: randomBytes(32),
    publicUrl: 'http://files.test',
  });
  uploads = createUploads({ database: db.database, objects, logger: silentLogger() });
  resumable = createResumableUploads({ database: db.database, objects });
  ({ accountId } = await db.account());
});
afterAll(async () => {
  await objects.close();
  await rm(folder, { recursive: true });
  await db.close();
});

const by = (account = accountId) => ({ accountId: account, keyId: 'key-of-the-request' });

const begin = (more: { length?: bigint; account?: string; maxBytes?: bigint } = {}) =>
  resumable.begin(by(more.account), {
    caller: undefined,
    declaredType: 'video/mp4',
    filename: 'a.mp4',
    length: more.length,
    maxBytes: more.maxBytes ?? 1_000n,
  });
const take = (fileKey: string, length?: bigint, account = accountId) =>
  resumable.take(by(account), { caller: undefined, fileKey, length });
const part = (
  { fileKey, writer }: { fileKey: string; writer: bigint },
  start: bigint,
  sizeBytes: bigint,
  more: { maxBytes?: bigint; accountId?: string } = {},
) => ({
  ...{ fileKey, accountId, writer, start, sizeBytes, maxBytes: undefined },
  objectKey: `parts/${fileKey.slice(4)}/${start}-${writer}`,
  ...more,
});
const stored = async (of: ReturnType<typeof part>) => {
  await objects.put(of.objectKey, Readable.from([Buffer.alloc(Number(of.sizeBytes))]), {
    contentType: 'application/octet-stream',
  });
  await resumable.record(of);
  return of.objectKey;
};
const isThere = (key: string) =>
  objects.info(key).then(
    () => true,
    () => false,
  );
const refused = (code: string) => expect.objectContaining({ code });

test('the offset grows by recorded parts alone, each once, from where it is', async () => {
  const upload = await begin();
  expect(upload).toMatchObject({ storedBytes: 0n, writer: 1n, filename: 'a.mp4', declaredType: 'video/mp4' });
  await resumable.record(part(upload, 0n, 10n));
  for (const wrong of [part(upload, 0n, 10n), part(upload, 5n, 10n), part(upload, 11n, 1n)])
    await expect(resumable.record(wrong)).rejects.toEqual(refused('not_found'));
  await resumable.record(part(upload, 10n, 5n));
  expect(await take(upload.fileKey)).toMatchObject({ storedBytes: 15n, writer: 2n });
  expect((await resumable.parts(upload.fileKey, accountId)).parts.map(({ sizeBytes }) => sizeBytes)).toEqual([
    10n,
    5n,
  ]);
  expect((await resumable.parts(upload.fileKey, 'another')).parts).toEqual([]);
});

test('who takes the upload fences all before, also in the completion', async () => {
  const first = await begin();
  const second = await take(first.fileKey);
  await expect(resumable.record(part(first, 0n, 1n))).rejects.toEqual(refused('not_found'));
  await resumable.record(part(second, 0n, 1n));
  const description = {
    ...{ fileKey: first.fileKey, accountId, kind: MediaKind.MEDIA_KIND_VIDEO, contentType: 'video/mp4' },
    ...{ sizeBytes: 1n, sha256: Buffer.alloc(32), animated: false },
  };
  await expect(uploads.complete({ ...description, writer: first.writer })).rejects.toEqual(
    refused('not_found'),
  );
  expect(await uploads.complete({ ...description, writer: second.writer })).toContain(first.fileKey);
  // The answer was lost; a later request asks again.
  const third = await take(first.fileKey);
  expect(third.url).toContain(first.fileKey);
  await expect(resumable.record(part(third, 1n, 1n))).rejects.toEqual(refused('not_found'));
});

test('concurrent takers get different numbers, and one part is recorded', async () => {
  const { fileKey } = await begin();
  const taken = await Promise.all(Array.from({ length: 20 }, () => take(fileKey)));
  expect(new Set(taken.map(({ writer }) => writer)).size).toBe(20);
  const results = await Promise.allSettled(taken.map((upload) => resumable.record(part(upload, 0n, 10n))));
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  expect(await take(fileKey)).toMatchObject({ storedBytes: 10n });
});

test('lengths agree, and bound what is recorded', async () => {
  await expect(begin({ length: 1_001n })).rejects.toEqual(refused('input_too_large'));
  const { fileKey } = await begin();
  const upload = await take(fileKey, 20n);
  expect(upload.length).toBe(20n);
  await expect(take(fileKey, 21n)).rejects.toEqual(refused('invalid_input'));
  const latest = await take(fileKey, 20n);
  await expect(resumable.record(part(latest, 0n, 21n))).rejects.toEqual(refused('not_found'));
  await resumable.record(part(latest, 0n, 20n, { maxBytes: 20n }));
  const other = await begin();
  await resumable.record(part(other, 0n, 50n));
  await expect(take(other.fileKey, 49n)).rejects.toEqual(refused('invalid_input'));
  await expect(take(other.fileKey, 2_000n)).rejects.toEqual(refused('invalid_input'));
});

test('an account has its own, and no more unfinished ones than the setting', async () => {
  const { accountId: account } = await db.account();
  await db.sql`update settings set max_resumable_uploads = 3`;
  const begun = await Promise.allSettled(Array.from({ length: 10 }, () => begin({ account })));
  const made = begun.flatMap((result) => (result.status === 'fulfilled' ? [result.value.fileKey] : []));
  expect(made).toHaveLength(3);
  await expect(begin({ account })).rejects.toEqual(refused('at_capacity'));
  await expect(take(made[0] as string)).rejects.toEqual(refused('not_found'));
  await uploads.abort(made[0] as string, account);
  await expect(take(made[0] as string, undefined, account)).rejects.toEqual(refused('not_found'));
  await begin({ account });
  await db.sql`update settings set max_resumable_uploads = 20`;
});

test('parts go when the upload is complete, given up or expired; before that they stay', async () => {
  const { accountId: account } = await db.account();
  const of = async () => {
    const upload = await begin({ account });
    const key = await stored(part(upload, 0n, 5n, { accountId: account }));
    return { upload, key };
  };
  const [open, complete, cancelled, expired] = await Promise.all([of(), of(), of(), of()]);
  await uploads.complete({
    ...{ fileKey: complete.upload.fileKey, accountId: account, kind: MediaKind.MEDIA_KIND_VIDEO },
    ...{ contentType: 'video/mp4', sizeBytes: 5n, sha256: Buffer.alloc(32), animated: false, writer: 1n },
  });
  await uploads.abort(cancelled.upload.fileKey, account);
  await db.sql`update resumable_uploads set expires_at = now() - interval '1 s' where file_key = ${expired.upload.fileKey}`;
  await db.sql`update uploads set reserved_at = reserved_at - interval '3 hours' where account_id = ${account}`;
  await expect(take(expired.upload.fileKey, undefined, account)).rejects.toEqual(refused('not_found'));
  await uploads.sweep(signal, 0);
  await uploads.sweep(signal, 0);
  const all = [open, complete, cancelled, expired];
  expect(await Promise.all(all.map(({ key }) => isThere(key)))).toEqual([true, false, false, false]);
  const rows =
    await db.sql`select 1 from upload_parts p where p.object_key = any(${all.map(({ key }) => key)}::text[])`;
  expect(rows).toHaveLength(1);
  expect(await take(open.upload.fileKey, undefined, account)).toMatchObject({ storedBytes: 5n });
});

test.each(['', 'api/none', 'api/\0', 'x'.repeat(10_000)])('a key like %j is not found', async (key) => {
  await expect(take(key)).rejects.toEqual(refused('not_found'));
});

describe('room of the account', () => {
  const small = async () => {
    const { accountId: account } = await db.account();
    await db.sql`delete from uploads where account_id = ${account}`;
    await db.sql`update accounts set stored_mb_limit = 1, daily_mb_limit = 100 where id = ${account}`;
    return account;
  };

  it('is needed at the begin for a stated length', async () => {
    const account = await small();
    const maxBytes = 5_000_000n;
    await expect(begin({ account, length: 1_000_001n, maxBytes })).rejects.toMatchObject({
      code: 'at_capacity',
    });
    await begin({ account, length: 600_000n, maxBytes });
    await expect(begin({ account, length: 400_001n, maxBytes })).rejects.toMatchObject({
      code: 'at_capacity',
    });
    await begin({ account, length: 400_000n, maxBytes });
  });

  it('is needed for each part where no length was stated, and a refused part moves no offset', async () => {
    const account = await small();
    const upload = await begin({ account, maxBytes: 5_000_000n });
    await resumable.record(part(upload, 0n, 900_000n, { accountId: account }));
    await expect(
      resumable.record(part(upload, 900_000n, 100_001n, { accountId: account })),
    ).rejects.toMatchObject({ code: 'at_capacity' });
    await resumable.record(part(upload, 900_000n, 100_000n, { accountId: account }));
    expect((await take(upload.fileKey, undefined, account)).storedBytes).toBe(1_000_000n);
    // What is set aside for it is all of the account's room, and free again when it is given up.
    await expect(uploads.begin(account)).rejects.toMatchObject({ code: 'at_capacity' });
    await uploads.abort(upload.fileKey, account);
    await uploads.begin(account);
  });
});
