import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { silentLogger } from '@semblance/common/logging';
import { isObjectKey } from '@semblance/common/object-key';
import { type OpenedObjectStore, openObjectStore } from '@semblance/objects/open';
import { type CompleteUploadRequest, MediaKind } from '@semblance/proto/semblance/control/v1/control';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createUploads, type Uploads } from './uploads.ts';

let db: TestDatabase;
let folder: string;
let objects: OpenedObjectStore;
let uploads: Uploads;
beforeAll(async () => {
  db = await testDatabase();
  folder = await mkdtemp(join(tmpdir(), 'semblance-uploads-'));
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

const description = (fileKey: string, accountId: string, more: Partial<CompleteUploadRequest> = {}) => ({
  fileKey,
  accountId,
  kind: MediaKind.MEDIA_KIND_IMAGE,
  contentType: 'image/png',
  sizeBytes: 5n,
  sha256: createHash('sha256').update('bytes').digest(),
  animated: false,
  ...more,
});
const store = (key: string) =>
  objects.put(key, Readable.from([Buffer.from('bytes')]), { contentType: 'image/png' });
const begin = async (accountId: string) => (await uploads.begin(accountId)).fileKey;
const isThere = (key: string) =>
  objects.info(key).then(
    () => true,
    () => false,
  );
const row = async (key: string) => (await db.sql`select * from uploads where file_key = ${key}`)[0];
const age = (key: string, hours: number) => db.sql`
  update uploads set reserved_at = reserved_at - ${hours} * interval '1 hour', abandoned_at = abandoned_at - ${hours} * interval '1 hour'
  where file_key = ${key}`;

test('a key begins with api/, is an object key, and tells nothing of its account', async () => {
  const { accountId } = await db.account();
  const keys = await Promise.all(Array.from({ length: 50 }, () => begin(accountId)));
  expect(new Set(keys).size).toBe(50);
  for (const key of keys)
    expect(key.startsWith('api/') && isObjectKey(key) && !key.includes(accountId)).toBe(true);
});

test('completing gives a signed link; completing again the same; with other bytes, or for another account, not', async () => {
  const [{ accountId }, other] = [await db.account(), await db.account()];
  const key = await begin(accountId);
  await store(key);
  const url = await uploads.complete(description(key, accountId));
  expect(new URL(url).origin).toBe('http://files.test');
  await expect(uploads.complete(description(key, accountId))).resolves.toContain(key);
  const different = description(key, accountId, { sha256: Buffer.alloc(32) });
  await expect(uploads.complete(different)).rejects.toMatchObject({ code: 'not_found' });
  await expect(uploads.complete(description(key, other.accountId))).rejects.toMatchObject({
    code: 'not_found',
  });
  await expect(uploads.complete(description('api/none', accountId))).rejects.toMatchObject({
    code: 'not_found',
  });
});

test.each<[string, Partial<CompleteUploadRequest>]>([
  ['no kind', { kind: MediaKind.MEDIA_KIND_UNSPECIFIED }],
  ['a negative size', { sizeBytes: -1n }],
  ['half a digest', { sha256: Buffer.alloc(16) }],
  ['a type of two lines', { contentType: 'image/png\r\nx: y' }],
])('%s is invalid_input', async (_, change) => {
  const { accountId } = await db.account();
  const key = await begin(accountId);
  await expect(uploads.complete(description(key, accountId, change))).rejects.toMatchObject({
    code: 'invalid_input',
  });
});

test('what is aborted is gone, cannot be completed, and is deleted again if a late write put it back', async () => {
  const { accountId } = await db.account();
  const key = await begin(accountId);
  await store(key);
  await uploads.abort(key, accountId);
  expect(await isThere(key)).toBe(false);
  await expect(uploads.complete(description(key, accountId))).rejects.toMatchObject({ code: 'not_found' });
  await store(key);
  await age(key, 1);
  await uploads.sweep(new AbortController().signal);
  expect([await isThere(key), await row(key)]).toEqual([false, undefined]);
});

test.each(['completing', 'aborting'])('bytes stored after their key was swept go by %s it', async (late) => {
  const { accountId } = await db.account();
  const key = await begin(accountId);
  await age(key, 3);
  await uploads.sweep(new AbortController().signal);
  await age(key, 1);
  await uploads.sweep(new AbortController().signal);
  expect(await row(key)).toBeUndefined();
  await store(key);
  if (late === 'completing')
    await expect(uploads.complete(description(key, accountId))).rejects.toMatchObject({ code: 'not_found' });
  else await uploads.abort(key, accountId);
  expect(await isThere(key)).toBe(false);
});

test.each(['completing', 'aborting'])(
  'bytes stored after their key was given up go by %s it',
  async (late) => {
    const { accountId } = await db.account();
    const key = await begin(accountId);
    await uploads.abort(key, accountId);
    await store(key);
    if (late === 'completing')
      await expect(uploads.complete(description(key, accountId))).rejects.toMatchObject({
        code: 'not_found',
      });
    else await uploads.abort(key, accountId);
    expect(await isThere(key)).toBe(false);
  },
);

test('nothing but the bytes of the caller’s own lost uploads is ever deleted', async () => {
  const [{ accountId }, other] = [await db.account(), await db.account()];
  const [complete, reserved, givenUp] = [
    await begin(accountId),
    await begin(accountId),
    await begin(accountId),
  ];
  await store(complete);
  await uploads.complete(description(complete, accountId));
  await uploads.abort(givenUp, accountId);
  const keys = [complete, reserved, givenUp, 'outputs/job-1', 'api/other'];
  for (const key of keys) await store(key);
  const otherBytes = { sha256: Buffer.alloc(32) };
  await expect(uploads.complete(description(complete, accountId, otherBytes))).rejects.toMatchObject({
    code: 'not_found',
  });
  for (const key of keys) {
    await expect(uploads.complete(description(key, other.accountId))).rejects.toMatchObject({
      code: 'not_found',
    });
    await uploads.abort(key, other.accountId);
  }
  expect(await Promise.all(keys.map(isThere))).toEqual(keys.map(() => true));
});

test('an abort of a complete upload, or of another account’s, changes nothing', async () => {
  const [{ accountId }, other] = [await db.account(), await db.account()];
  const key = await begin(accountId);
  await store(key);
  await uploads.abort(key, other.accountId);
  await uploads.complete(description(key, accountId));
  await uploads.abort(key, accountId);
  expect([await isThere(key), (await row(key))?.abandoned_at]).toEqual([true, null]);
});

test('a reservation that is never completed is swept with its bytes; younger and complete ones stay', async () => {
  const { accountId } = await db.account();
  const [late, young, complete] = [await begin(accountId), await begin(accountId), await begin(accountId)];
  for (const key of [late, young, complete]) await store(key);
  await uploads.complete(description(complete, accountId));
  await age(late, 3);
  await age(complete, 3);
  await uploads.sweep(new AbortController().signal);
  expect(await Promise.all([late, young, complete].map(isThere))).toEqual([false, true, true]);
  await age(late, 1);
  await uploads.sweep(new AbortController().signal);
  expect(await row(late)).toBeUndefined();
  await expect(uploads.complete(description(young, accountId))).resolves.toContain(young);
});

test('a file that cannot be deleted keeps no other from going, and goes when it can', async () => {
  const { accountId } = await db.account();
  const keys = await Promise.all(Array.from({ length: 3 }, () => begin(accountId)));
  let stuck = keys[0];
  const failing = createUploads({
    database: db.database,
    logger: silentLogger(),
    objects: {
      ...objects,
      delete: async (key) => {
        if (key === stuck) throw new Error('this one cannot be deleted');
      },
    },
  });
  const { signal } = new AbortController();
  const left = async () => (await Promise.all(keys.map(row))).map((found) => found !== undefined);
  for (const hours of [3, 1]) {
    for (const key of keys) await age(key, hours);
    await failing.sweep(signal);
  }
  expect(await left()).toEqual([true, false, false]);
  stuck = '';
  await failing.sweep(signal);
  expect(await left()).toEqual([false, false, false]);
});

test('sweeps and completions at the same time leave each key either complete with its bytes or gone', async () => {
  const { accountId } = await db.account();
  const keys = await Promise.all(Array.from({ length: 30 }, () => begin(accountId)));
  await Promise.all(keys.map(store));
  await db.sql`update uploads set reserved_at = now() - interval '3 hours' where account_id = ${accountId} and completed_at is null`;
  const { signal } = new AbortController();
  const completions = Promise.allSettled(keys.map((key) => uploads.complete(description(key, accountId))));
  const [results] = await Promise.all([completions, uploads.sweep(signal), uploads.sweep(signal)]);
  for (const [i, key] of keys.entries()) expect(await isThere(key)).toBe(results[i]?.status === 'fulfilled');
});
