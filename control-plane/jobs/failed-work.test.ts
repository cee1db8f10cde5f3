import { silentLogger } from '@semblance/common/logging';
import type { RenderJob, RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import type { ObjectStore } from '@semblance/objects/store';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { setLimits } from '../accounts/limits.ts';
import { removeOldWork } from '../chores/housekeeping.ts';
import { createSettler } from './settle.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

const objects = { info: async () => ({ sizeBytes: 1, contentType: 'image/png' }) } as unknown as ObjectStore;

const settler = (slots = 1) =>
  createSettler({
    database: db.database,
    objects,
    logger: silentLogger(),
    onSettled: () => {},
    slotsOf: () => slots,
  });

const BEGAN = Date.parse('2026-01-01T00:00:00Z');
const at = (seconds: number) => new Date(BEGAN + seconds * 1_000).toISOString();

function renderJob(name: string, status: Partial<RenderJobStatus>, metadata: object = {}): RenderJob {
  return {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'RenderJob',
    metadata: { name, uid: `uid of ${name}`, ...metadata },
    spec: { capability: 'face-swap-image', inputs: [] },
    status: { phase: 'Failed', startTime: at(0), ...status },
  };
}

const failure = (code: string) => ({ failure: { code, message: 'no' } }) as Partial<RenderJobStatus>;
const DEADLINE = {
  conditions: [
    { type: 'Failed', status: 'True', reason: 'DeadlineExceeded', message: '', lastTransitionTime: at(0) },
  ],
} as Partial<RenderJobStatus>;
const SUCCESS = {
  phase: 'Succeeded',
  output: { key: 'api/out', contentType: 'image/png', sizeBytes: 1, unit: 'image', milliUnits: 1000 },
} as Partial<RenderJobStatus>;

type Account = Awaited<ReturnType<TestDatabase['account']>>;

const submit = (account: Account, key?: string) =>
  db.submitter()(account.submission({ idempotencyKey: key }));

/** Submits a job that ends after so many seconds on a slot. */
async function ends(account: Account, seconds: number, how: Partial<RenderJobStatus>, slots?: number) {
  const { jobId } = await submit(account);
  await settler(slots).settleFrom(renderJob(jobId, { ...how, completionTime: at(seconds) }));
  return jobId;
}

const REFUSED = { code: 'at_capacity', message: expect.stringContaining('900 slot-seconds') };

test.each([
  ['face_not_detected', failure('face_not_detected'), true],
  ['unsupported_format', failure('unsupported_format'), true],
  ['input_too_large', failure('input_too_large'), true],
  ['content_rejected', failure('content_rejected'), true],
  ['an attempt that took too long', DEADLINE, true],
  ['processing_failed, which is a fault of the service', failure('processing_failed'), false],
  ['a success', SUCCESS, false],
])('%s: counts as failed work: %s', async (_, how, counts) => {
  const account = await db.account();
  await ends(account, 900, how);
  await submit(account);
  await ends(account, 1, how);
  if (counts) await expect(submit(account)).rejects.toMatchObject(REFUSED);
  else await submit(account);
});

test('a refusal is of one account, passes with the hour, and has no effect on repeats', async () => {
  const [account, other] = [await db.account(), await db.account()];
  const { jobId } = await submit(account, 'key');
  await ends(account, 901, failure('face_not_detected'));
  await expect(submit(account, 'another')).rejects.toMatchObject(REFUSED);
  expect(await submit(account, 'key')).toEqual({ jobId, replayed: true });
  await submit(other);
  await db.sql`update failed_work set minute = minute - interval '61 minutes' where account_id = ${account.accountId}`;
  await submit(account, 'another');
});

test('what a job took counts by its slots, once, however often it is settled', async () => {
  const account = await db.account();
  const jobId = await ends(account, 300, failure('face_not_detected'), 3);
  await settler(3).settleFrom(renderJob(jobId, { ...failure('face_not_detected'), completionTime: at(300) }));
  await submit(account);
  await ends(account, 1, failure('face_not_detected'));
  await expect(submit(account)).rejects.toMatchObject(REFUSED);
});

test('work of a job that its owner cancelled counts; that of one which the service owner deleted does not', async () => {
  for (const own of [true, false]) {
    const account = await db.account();
    const { jobId } = await submit(account);
    await db.sql`select begin_job(${jobId}, ${`uid of ${jobId}`})`;
    if (own) await db.sql`select cancel_job(${jobId}, ${account.accountId})`;
    await settler().failWithdrawn(renderJob(jobId, { phase: 'Running' }, { deletionTimestamp: at(901) }));
    if (own) await expect(submit(account)).rejects.toMatchObject(REFUSED);
    else await submit(account);
  }
});

test('a cancelled job counts also when it finished first', async () => {
  const account = await db.account();
  const { jobId } = await submit(account);
  await db.sql`select begin_job(${jobId}, ${`uid of ${jobId}`})`;
  await db.sql`select cancel_job(${jobId}, ${account.accountId})`;
  await settler().settleFrom(renderJob(jobId, { ...SUCCESS, completionTime: at(901) }));
  await expect(submit(account)).rejects.toMatchObject(REFUSED);
});

test('a job that never had a slot costs nothing', async () => {
  const account = await db.account();
  const { jobId } = await submit(account);
  await settler().settleFrom(
    renderJob(jobId, { ...DEADLINE, startTime: undefined, completionTime: at(9_000) }),
  );
  await submit(account);
});

test('an account can have a limit of its own, and the setting can be never', async () => {
  const [strict, free] = [await db.account(), await db.account()];
  await setLimits(db.sql, strict.accountId, { failedSlotSeconds: 10 });
  await ends(strict, 11, failure('face_not_detected'));
  await expect(submit(strict)).rejects.toMatchObject({ message: expect.stringContaining('10 slot-seconds') });
  await db.sql`update settings set failed_slot_seconds_per_hour = null`;
  await ends(free, 1_000_000, failure('face_not_detected'));
  await submit(free);
  await expect(submit(strict)).rejects.toMatchObject({ code: 'at_capacity' });
  await db.sql`update settings set failed_slot_seconds_per_hour = default`;
});

test('many that fail at once are all counted', async () => {
  const account = await db.account(100);
  const jobs = await Promise.all(Array.from({ length: 40 }, () => submit(account)));
  const { settleFrom } = settler();
  await Promise.all(
    jobs.map(({ jobId }) =>
      settleFrom(renderJob(jobId, { ...failure('face_not_detected'), completionTime: at(10) })),
    ),
  );
  const [row] = await db.sql`
    select sum(slot_ms)::int as ms from failed_work where account_id = ${account.accountId}`;
  expect(row?.ms).toBe(400_000);
  expect(await db.faults(account.accountId)).toEqual([]);
});

test('counts that no limit looks at any more are deleted', async () => {
  const account = await db.account();
  await ends(account, 1, failure('face_not_detected'));
  await removeOldWork(db.sql);
  const left = () => db.sql`select 1 from failed_work where account_id = ${account.accountId}`;
  expect(await left()).toHaveLength(1);
  await db.sql`update failed_work set minute = minute - interval '3 hours' where account_id = ${account.accountId}`;
  await removeOldWork(db.sql);
  expect(await left()).toHaveLength(0);
});
