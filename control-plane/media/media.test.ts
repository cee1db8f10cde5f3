import { Readable } from 'node:stream';
import { MediaKind } from '@semblance/proto/semblance/control/v1/control';
import {
  makeAccount,
  photoSwap,
  setStatus,
  startTestSystem,
  succeed,
  type TestSystem,
  untilJob,
  untilRenderJob,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createOrphans } from './orphans.ts';
import { listReceipts } from './receipts.ts';
import { createRemovals } from './removals.ts';
import { createRetention } from './retention.ts';

let system: TestSystem;
const signal = new AbortController().signal;

beforeAll(async () => {
  // After its first round, the control plane's own housekeeping leaves everything to the test.
  system = await startTestSystem({ jobSweepMs: 200, housekeepingMs: 3_600_000 });
});
afterAll(() => system.close());

const store = () => system.objects;
const removalsOf = (objects = store()) =>
  createRemovals({ database: system.database, objects, logger: system.logger });
const retentionOf = (objects = store(), keysInUse: () => string[] | undefined = () => []) =>
  createRetention({ database: system.database, removals: removalsOf(objects), keysInUse });

const control = <M extends 'submitJob' | 'getJob' | 'deleteJobMedia' | 'deleteUpload'>(method: M) =>
  system.client.control[method].bind(system.client.control) as (typeof system.client.control)[M];

type Account = Awaited<ReturnType<typeof makeAccount>>;

async function submitted(account: Account, ...files: [string, string?]) {
  const { id } = await system.client.ask(control('submitJob'), photoSwap(account.caller, ...files));
  return { id, renderJob: await untilRenderJob(system, id) };
}

async function succeeded(account: Account, ...files: [string, string?]) {
  const { id, renderJob } = await submitted(account, ...files);
  await succeed(system, renderJob);
  await untilJob(system, account.caller, id, ({ status }) => status === 'succeeded');
  return { id, output: `out/${id}/1.png` };
}

const isStored = (key: string) =>
  store()
    .info(key)
    .then(
      () => true,
      () => false,
    );
const age = (fileKeys: string[], days: number) => system.database.sql`
  update uploads set completed_at = now() - ${days} * interval '1 day' where file_key = any(${fileKeys}::text[])`;
const ageJob = (id: string, days: number) => system.database.sql`
  update jobs set settled_at = now() - ${days} * interval '1 day' where id = ${id}`;
const deletions = (keys: string[]) => system.database.sql`
  select object_key, kind, account_id, job_id, size_bytes, removed_by, actor from media_deletions
  where object_key = any(${keys}::text[]) order by object_key`;

describe('retention', () => {
  test('an upload goes after its time, and reads like a key that never was', async () => {
    const account = await makeAccount(system);
    const [old, young] = [await upload(system, account.caller), await upload(system, account.caller)];
    await age([old.fileKey], 31);
    await age([young.fileKey], 29);
    await retentionOf().sweep(signal);
    expect(await isStored(old.fileKey)).toBe(false);
    expect(await isStored(young.fileKey)).toBe(true);
    const refusalOf = (key: string) =>
      system.client
        .ask(control('submitJob'), photoSwap(account.caller, key, young.fileKey))
        .catch(({ code, message }) => ({ code, message }));
    const unknown = await refusalOf('api/up-00000000000000000000000000');
    expect(unknown).toMatchObject({ code: 'invalid_input' });
    expect(await refusalOf(old.fileKey)).toEqual(unknown);
    expect(await deletions([old.fileKey, young.fileKey])).toEqual([
      {
        object_key: old.fileKey,
        kind: 'upload',
        account_id: account.accountId,
        job_id: null,
        size_bytes: 5n,
        removed_by: 'retention',
        actor: null,
      },
    ]);
  });

  test('an input of a job that has not ended stays, whatever its age; it goes when the job has', async () => {
    const account = await makeAccount(system);
    const { fileKey } = await upload(system, account.caller);
    const { id, renderJob } = await submitted(account, fileKey);
    await age([fileKey], 400);
    await retentionOf().sweep(signal);
    expect(await isStored(fileKey)).toBe(true);
    await setStatus(system, renderJob, {
      phase: 'Failed',
      failure: { code: 'processing_failed', message: 'x' },
    });
    await untilJob(system, account.caller, id, ({ status }) => status === 'failed');
    await retentionOf().sweep(signal);
    expect(await isStored(fileKey)).toBe(false);
  });

  test('an input of a RenderJob that was made by hand stays', async () => {
    const account = await makeAccount(system);
    const { fileKey } = await upload(system, account.caller);
    await age([fileKey], 400);
    await retentionOf(store(), () => [fileKey]).sweep(signal);
    expect(await isStored(fileKey)).toBe(true);
    // No other file is deleted either while the RenderJobs are unknown.
    await retentionOf(store(), () => undefined).sweep(signal);
    expect(await isStored(fileKey)).toBe(true);
  });

  test('an output goes after its time; status and charge stay, the link is null', async () => {
    const account = await makeAccount(system);
    const { fileKey } = await upload(system, account.caller);
    const { id, output } = await succeeded(account, fileKey);
    await retentionOf().sweep(signal);
    const before = await untilJob(system, account.caller, id, () => true);
    expect(before.outputUrl).toMatch(/^http/);
    expect(await isStored(output)).toBe(true);
    await ageJob(id, 31);
    await retentionOf().sweep(signal);
    expect(await isStored(output)).toBe(false);
    const after = await untilJob(system, account.caller, id, () => true);
    expect(after).toEqual({ ...before, outputUrl: undefined, expiresAt: undefined });
    expect(await deletions([output])).toMatchObject([
      { kind: 'output', job_id: id, removed_by: 'retention' },
    ]);
  });

  test('an output whose submit asked for it goes earlier, and never later than the setting says', async () => {
    const account = await makeAccount(system);
    const { fileKey } = await upload(system, account.caller);
    const ends = async (expiresInSeconds: bigint, agedDays: number) => {
      const request = { ...photoSwap(account.caller, fileKey), expiresInSeconds };
      const { id } = await system.client.ask(control('submitJob'), request);
      await succeed(system, await untilRenderJob(system, id));
      const job = await untilJob(system, account.caller, id, ({ status }) => status === 'succeeded');
      const { sql } = system.database;
      await sql`
        update jobs set settled_at = settled_at - ${agedDays} * interval '1 day',
                        output_expires_at = output_expires_at - ${agedDays} * interval '1 day' where id = ${id}`;
      await retentionOf().sweep(signal);
      const [row] = await sql<{ seconds: number }[]>`
        select extract(epoch from output_expires_at - settled_at)::int as seconds from jobs where id = ${id}`;
      expect(row?.seconds).toBe(Number(expiresInSeconds));
      return { job, isThere: await isStored(`out/${id}/1.png`) };
    };
    const day = 86_400n;
    expect(await ends(2n * day, 1)).toMatchObject({ isThere: true });
    expect(await ends(2n * day, 3)).toMatchObject({ isThere: false });
    const { job, isThere } = await ends(29n * day, 28);
    expect(isThere).toBe(true);
    await system.database.sql`update settings set output_retention_seconds = 604800`;
    const shorter = await untilJob(system, account.caller, job.id, () => true);
    await retentionOf().sweep(signal);
    await system.database.sql`update settings set output_retention_seconds = default`;
    expect(shorter).toMatchObject({ status: 'succeeded', outputUrl: undefined, expiresAt: undefined });
    expect(await isStored(`out/${job.id}/1.png`)).toBe(false);
  });

  test('a deletion that the store does not confirm is tried again, and has no receipt before', async () => {
    const account = await makeAccount(system);
    const { fileKey } = await upload(system, account.caller);
    await age([fileKey], 31);
    // It says that it deleted the object, and still has it.
    const lying = { ...store(), delete: async () => {}, info: store().info.bind(store()) } as ReturnType<
      typeof store
    >;
    await retentionOf(lying).sweep(signal);
    expect(await deletions([fileKey])).toEqual([]);
    const receipts = () => listReceipts(system.database.sql, account.accountId, { limit: 10 });
    expect(await receipts()).toMatchObject({ receipts: [], pending: 1 });
    await system.database.sql`update media_removals set due_at = now() where object_key = ${fileKey}`;
    await retentionOf().sweep(signal);
    const { receipts: made, pending } = await receipts();
    expect([made.length, pending]).toEqual([1, 0]);
    expect(JSON.parse(made[0]?.statementJson ?? '')).toMatchObject({
      object_key: fileKey,
      requested_by: 'retention',
    });
  });

  test('without a time everything stays for ever', async () => {
    const account = await makeAccount(system);
    const { fileKey } = await upload(system, account.caller);
    const { id, output } = await succeeded(account, fileKey);
    await age([fileKey], 4_000);
    await ageJob(id, 4_000);
    const { sql } = system.database;
    await sql`update settings set upload_retention_seconds = null, output_retention_seconds = null`;
    await retentionOf().sweep(signal);
    await sql`update settings set upload_retention_seconds = default, output_retention_seconds = default`;
    expect([await isStored(fileKey), await isStored(output)]).toEqual([true, true]);
    await retentionOf().sweep(signal);
    expect([await isStored(fileKey), await isStored(output)]).toEqual([false, false]);
  });

  test('a store that fails loses nothing: the file is out of use, its deletion is owed and recorded once', async () => {
    const account = await makeAccount(system);
    const { fileKey } = await upload(system, account.caller);
    await age([fileKey], 31);
    const failing = Object.assign(Object.create(store()), {
      delete: () => Promise.reject(new Error('the store is away')),
    });
    await retentionOf(failing).sweep(signal);
    expect(await isStored(fileKey)).toBe(true);
    expect(await deletions([fileKey])).toEqual([]);
    // Killed between the deletion and its record: the object is gone, the debt remains.
    await store().delete(fileKey);
    const { sql } = system.database;
    const [owed] = await sql`select attempts, last_error from media_removals where object_key = ${fileKey}`;
    expect(owed).toEqual({ attempts: 1, last_error: 'the store is away' });
    await sql`update media_removals set due_at = now() where object_key = ${fileKey}`;
    await Promise.all([1, 2, 3].map(() => retentionOf().sweep(signal)));
    expect(await deletions([fileKey])).toHaveLength(1);
    expect(await sql`select 1 from media_removals where object_key = ${fileKey}`).toEqual([]);
  });

  test('sweeps of several processes at once record each deletion once', async () => {
    const account = await makeAccount(system);
    const keys = await Promise.all(
      Array.from({ length: 30 }, async () => (await upload(system, account.caller)).fileKey),
    );
    await age(keys, 31);
    await Promise.all(Array.from({ length: 4 }, () => retentionOf().sweep(signal)));
    // It deletes what one of them had just claimed.
    await expect.poll(async () => (await deletions(keys)).length).toBe(30);
  });

  test('submits and deletions that race: no job is admitted whose input is gone', async () => {
    const account = await makeAccount(system, 1_000);
    let admitted = 0;
    let deleted = 0;
    for (let round = 0; round < 15; round++) {
      const { fileKey } = await upload(system, account.caller);
      const [submit, gone] = await Promise.allSettled([
        system.client.ask(control('submitJob'), photoSwap(account.caller, fileKey)),
        system.client.ask(control('deleteUpload'), { caller: account.caller, fileKey }),
      ]);
      if (submit.status === 'fulfilled') admitted++;
      if (gone.status === 'fulfilled') deleted++;
      // Exactly one of the two succeeded.
      expect([submit.status, gone.status].sort()).toEqual(['fulfilled', 'rejected']);
      expect(await isStored(fileKey)).toBe(submit.status === 'fulfilled');
    }
    expect(admitted + deleted).toBe(15);
  });
});

describe('owners delete', () => {
  let account: Account;
  beforeEach(async () => {
    account = await makeAccount(system);
  });
  const ask = (jobId: string, inputs = false, caller = account.caller) =>
    system.client.ask(control('deleteJobMedia'), { caller, jobId, inputs });

  test('an output, once; the job stays as it was', async () => {
    const { fileKey } = await upload(system, account.caller);
    const { id, output } = await succeeded(account, fileKey);
    expect(await ask(id)).toEqual({ outputDeleted: true, deletedInputs: [], keptInputs: [] });
    expect(await isStored(output)).toBe(false);
    expect(await isStored(fileKey)).toBe(true);
    const job = await untilJob(system, account.caller, id, () => true);
    expect(job).toMatchObject({ status: 'succeeded', outputUrl: undefined, chargedMicros: 40_000n });
    expect(await ask(id)).toEqual({ outputDeleted: false, deletedInputs: [], keptInputs: [] });
    expect(await deletions([output])).toMatchObject([{ removed_by: 'owner', actor: account.keyId }]);
  });

  test('inputs too, but for those that another unfinished job is made from', async () => {
    const [base, face] = [await upload(system, account.caller), await upload(system, account.caller)];
    const { id } = await succeeded(account, base.fileKey, face.fileKey);
    const other = await submitted(account, face.fileKey);
    expect(await ask(id, true)).toEqual({
      outputDeleted: true,
      deletedInputs: [base.fileKey],
      keptInputs: [face.fileKey],
    });
    expect(await isStored(face.fileKey)).toBe(true);
    await succeed(system, other.renderJob);
    await untilJob(system, account.caller, other.id, ({ status }) => status === 'succeeded');
    expect(await ask(id, true)).toEqual({
      outputDeleted: false,
      deletedInputs: [face.fileKey],
      keptInputs: [],
    });
  });

  test('nothing of a job that has not ended, and nothing of others', async () => {
    const { fileKey } = await upload(system, account.caller);
    const { id } = await submitted(account, fileKey);
    await expect(ask(id, true)).rejects.toMatchObject({ code: 'invalid_input' });
    const stranger = await makeAccount(system);
    await expect(ask(id, true, stranger.caller)).rejects.toMatchObject({ code: 'not_found' });
    for (const jobId of ['', 'job-x', "job-' or true", 'j\0b'])
      await expect(ask(jobId), jobId).rejects.toMatchObject({ code: 'not_found' });
    const drop = (key: string, { caller } = account) =>
      system.client.ask(control('deleteUpload'), { caller, fileKey: key });
    await expect(drop(fileKey)).rejects.toMatchObject({ code: 'invalid_input' });
    await expect(drop(fileKey, stranger)).rejects.toMatchObject({ code: 'not_found' });
    for (const key of ['', 'api/', 'api/up-none', '../x', 'a\0b', 'x'.repeat(600)])
      await expect(drop(key), key).rejects.toMatchObject({ code: 'not_found' });
    expect(await isStored(fileKey)).toBe(true);
  });

  test('an upload, once', async () => {
    const { fileKey } = await upload(system, account.caller, MediaKind.MEDIA_KIND_VIDEO);
    const drop = () => system.client.ask(control('deleteUpload'), { caller: account.caller, fileKey });
    await drop();
    expect(await isStored(fileKey)).toBe(false);
    await expect(drop()).rejects.toMatchObject({ code: 'not_found' });
  });
});

test('objects that no row speaks of go; what is young, in use or of a RenderJob stays', async () => {
  const account = await makeAccount(system);
  const { fileKey } = await upload(system, account.caller);
  const { output } = await succeeded(account, fileKey);
  const running = await submitted(account, fileKey);
  const uid = running.renderJob.metadata.uid ?? '';
  const put = (key: string) =>
    store().put(key, Readable.from([Buffer.from('orphan')]), { contentType: 'image/png' });
  const lost = ['api/up-lost', 'out/fenced/1.png'];
  const kept = ['api/up-young', `out/${uid}/1.png`, 'out/by-hand/1.png', 'other/1', fileKey, output];
  for (const key of [...lost, ...kept.slice(0, 4)]) await put(key);
  const old = new Date(Date.now() - 2 * 86_400_000);
  const aged = Object.assign(Object.create(store()), {
    async *list(prefix: string) {
      for await (const object of store().list(prefix))
        yield { ...object, storedAt: object.key === 'api/up-young' ? object.storedAt : old };
    },
  });
  const orphans = createOrphans({
    sql: system.database.sql,
    objects: aged,
    removals: removalsOf(),
    logger: system.logger,
    renderJobs: () => new Set(['by-hand']),
  });
  const { orphans: found } = await orphans.sweep(signal);
  expect(found).toBeGreaterThanOrEqual(2);
  for (const key of lost) expect(await isStored(key), key).toBe(false);
  for (const key of kept) expect(await isStored(key), key).toBe(true);
  expect(await deletions(lost)).toMatchObject([{ kind: 'orphan' }, { kind: 'orphan', size_bytes: 6n }]);

  // A store that another installation uses too is left alone.
  await put('api/up-lost');
  await put('installation/another');
  expect(await orphans.sweep(signal)).toMatchObject({
    orphans: 0,
    skipped: expect.stringContaining('another'),
  });
  expect(await isStored('api/up-lost')).toBe(true);
});
