import { randomBytes } from 'node:crypto';
import { silentLogger } from '@semblance/common/logging';
import type { RenderJob, RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import { DamagedObjectError } from '@semblance/objects/footer';
import { ObjectNotFoundError, type ObjectStore } from '@semblance/objects/store';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { JOB_COLUMNS, toJobRow } from './job-row.ts';
import { createSettler, failureOf, type SettledFacts } from './settle.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

/** The part of a store that a settlement uses: its answers for a few keys; all others have one byte. */
const objects = {
  info: async (key: string) => {
    if (key === 'api/missing') throw new ObjectNotFoundError('nothing there');
    if (key === 'api/away') throw new Error('the store is away');
    if (key === 'api/damaged') throw new DamagedObjectError('an object in the store has no footer');
    if (key === 'api/longer') return { sizeBytes: 2, contentType: 'image/png' };
    return { sizeBytes: 1, contentType: 'image/png' };
  },
} as ObjectStore;

function settler(onSettled: (facts: SettledFacts) => void = () => {}) {
  return createSettler({ database: db.database, objects, logger: silentLogger(), onSettled });
}

function finished(name: string, status: RenderJobStatus, uid = 'uid-1'): RenderJob {
  return {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'RenderJob',
    metadata: { name, uid },
    spec: { capability: 'face-swap-image', inputs: [] },
    status,
  };
}

const success = (milliUnits = 1000, key = 'api/out'): RenderJobStatus => ({
  phase: 'Succeeded',
  output: { key, contentType: 'image/png', sizeBytes: 1, unit: 'image', milliUnits },
});

async function submitted(usd = 1) {
  const account = await db.account(usd);
  const { jobId } = await db.submitter()(account.submission());
  return { ...account, jobId };
}

const events = async (jobId: string) =>
  (await db.sql`select status from outbox where job_id = ${jobId} and kind = 'event' order by id`).map(
    ({ status }) => status,
  );

test('a job settled by many at once, some saying success and some failure, is settled once', async () => {
  const { jobId, accountId } = await submitted();
  const facts: SettledFacts[] = [];
  const settlers = [settler((fact) => facts.push(fact)), settler((fact) => facts.push(fact))];
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      settlers[i % 2]?.settleFrom(finished(jobId, i % 3 === 0 ? { phase: 'Failed' } : success())),
    ),
  );
  expect(outcomes.filter((outcome) => outcome === 'settled')).toHaveLength(1);
  expect(outcomes.filter((outcome) => outcome === 'already')).toHaveLength(19);
  expect(facts).toHaveLength(1);
  expect(await events(jobId)).toHaveLength(2);
  const { held, available, spent } = await db.balances(accountId);
  expect([held, available + spent]).toEqual([0n, 1_000_000n]);
  expect(await db.faults(accountId)).toEqual([]);
});

test('the charge is what was quoted at submit, though the rates have changed since', async () => {
  const { jobId, accountId } = await submitted();
  const [{ version = 0n } = {}] = await db.sql<{ version: bigint }[]>`
    insert into rates (capability, account_id, unit, rates, minimum_micros, hold_milli_units)
    values ('face-swap-image', ${accountId}, 'image', '[{"when": {}, "rate_micros": 900000}]', 900000, 1000) returning version`;
  await settler().settleFrom(finished(jobId, success()));
  const [job] = await db.sql`select charged_micros, rate_version from jobs where id = ${jobId}`;
  expect(job?.charged_micros).toBe(40_000n);
  expect(job?.rate_version).toBeLessThan(version);
});

test('a charge beyond the hold is collected, also below zero; then holds are refused until topped up', async () => {
  const account = await submitted(0.06);
  await settler().settleFrom(finished(account.jobId, success(5_000)));
  expect(await db.balances(account.accountId)).toEqual({
    available: -140_000n,
    held: 0n,
    spent: 200_000n,
    topped_up: 60_000n,
  });
  expect(await db.faults(account.accountId)).toEqual([]);
  await expect(db.submitter()(account.submission())).rejects.toMatchObject({ code: 'insufficient_balance' });
});

test('a price is rounded half up to a whole micro-dollar', async () => {
  const cases = [
    [0n, 0n, 0n],
    [1n, 499n, 0n],
    [1n, 500n, 1n],
    [1n, 1499n, 1n],
    [33_333n, 1n, 33n],
    [15_000n, 12_345n, 185_175n],
    [40_000n, 9_007_199_254n, 360_287_970_160n],
  ] as const;
  for (const [rate, units, price] of cases) {
    const [row] = await db.sql<{ price: bigint }[]>`select price_of(${rate}, ${units}) as price`;
    expect(row?.price).toBe(price);
  }
});

test('what the engine found out is kept with a success and with a failure, with inputs in the words of callers', async () => {
  const findings = {
    faces: { found: 2, changed: 1, left: [{ reason: 'bystander', count: 1 }] },
    hints: [
      { code: 'face_small', message: 'The face is small\0.', input: 'face' },
      { code: 'feature_kept', message: 'The mouth stays as it was.' },
      { code: 'odd', message: 'Of an input that the capability has not.', input: 'elbow' },
    ],
  };
  const kept = async (status: RenderJobStatus) => {
    const { jobId } = await submitted();
    await settler().settleFrom(finished(jobId, status));
    const [row] = await db.sql`select ${JOB_COLUMNS} from jobs j where j.id = ${jobId}`;
    return toJobRow(row ?? {}).findings;
  };
  const told = {
    faces: findings.faces,
    hints: [
      { code: 'face_small', message: 'The face is small.', input: 'face_key' },
      { code: 'feature_kept', message: 'The mouth stays as it was.' },
      { code: 'odd', message: 'Of an input that the capability has not.' },
    ],
  };
  const { output, ...rest } = success();
  const found = { ...rest, output: { ...(output as NonNullable<typeof output>), findings } };
  expect(await kept(found)).toEqual(told);
  const models = [{ name: 'swapper-a\0', sha256: 'ab'.repeat(32), licence: 'MIT' }];
  const withModels = { ...found, output: { ...found.output, findings: { ...findings, models } } };
  expect(await kept(withModels)).toEqual({
    ...told,
    models: [{ name: 'swapper-a', sha256: 'ab'.repeat(32), licence: 'MIT' }],
  });
  expect(await kept({ phase: 'Failed', findings })).toEqual(told);
  expect(await kept(success())).toBeNull();
  expect(await kept({ phase: 'Failed' })).toBeNull();
});

test('a job that its owner cancelled tells nothing of its inputs, whatever its RenderJob says', async () => {
  const { jobId } = await submitted();
  await db.sql`update jobs set cancel_requested_at = now() where id = ${jobId}`;
  await settler().settleFrom(finished(jobId, { phase: 'Failed', findings: { hints: [] } }));
  const [row] = await db.sql`select reason, findings from jobs where id = ${jobId}`;
  expect(row).toEqual({ reason: 'cancelled', findings: null });
});

test('less than the minimum costs the minimum', async () => {
  const { jobId, accountId } = await submitted();
  await settler().settleFrom(finished(jobId, success(1)));
  expect((await db.balances(accountId)).spent).toBe(40_000n);
});

test('a RenderJob that is not the job’s own has no say', async () => {
  const { jobId } = await submitted();
  await db.sql`update jobs set renderjob_uid = 'uid-own' where id = ${jobId}`;
  expect(await settler().settleFrom(finished(jobId, success(), 'uid-other'))).toBe('fenced');
  expect(await settler().settleFrom(finished(jobId, success(), 'uid-own'))).toBe('settled');
  expect(await settler().settleFrom(finished('job-unknown', success()))).toBe('unknown');
});

test('a job ends although its callback, accepted long ago, has a host that no index takes', async () => {
  const { jobId } = await submitted();
  const host = randomBytes(4_000).toString('hex');
  await db.sql`update jobs set callback_url = ${`https://${host}/hook`} where id = ${jobId}`;
  expect(await settler().settleFrom(finished(jobId, success()))).toBe('settled');
  const [delivery] = await db.sql`select url, origin, state from deliveries where job_id = ${jobId}`;
  expect(delivery).toMatchObject({ url: `https://${host}/hook`, state: 'pending' });
  expect(delivery?.origin).toBe(`https://${host}`.slice(0, 512));
});

test('an output that is missing fails the job; a store that does not answer settles nothing yet', async () => {
  const { jobId, accountId } = await submitted();
  await expect(settler().settleFrom(finished(jobId, success(1000, 'api/away')))).rejects.toThrow(
    'the store is away',
  );
  expect((await db.balances(accountId)).held).toBe(60_000n);
  expect(await settler().settleFrom(finished(jobId, success(1000, 'api/missing')))).toBe('settled');
  expect(await db.balances(accountId)).toMatchObject({ held: 0n, available: 1_000_000n });
});

test.each<[string, Partial<NonNullable<RenderJobStatus['output']>>]>([
  ['is damaged', { key: 'api/damaged' }],
  ['has a key that no object can have', { key: 'api/a b' }],
  ['is not as long as was reported', { key: 'api/longer' }],
  ['is measured in another unit', { unit: 'second' }],
  ['is measured in no unit', { unit: 'banana\0' as 'image' }],
  ['is more than one job can make', { milliUnits: 100_001 }],
  ['is less than nothing', { milliUnits: -1 }],
  ['is more than a number holds', { milliUnits: 2 ** 63 }],
  ['is part of a thousandth', { milliUnits: 0.5 }],
])('an output that %s fails the job, free of charge', async (_, wrong) => {
  const { jobId, accountId } = await submitted();
  const { output } = success();
  const status = { phase: 'Succeeded', output: { ...output, ...wrong } } as RenderJobStatus;
  expect(await settler().settleFrom(finished(jobId, status))).toBe('settled');
  const [job] = await db.sql`select status, error_code, reason from jobs where id = ${jobId}`;
  expect(job).toEqual({ status: 'failed', error_code: 'processing_failed', reason: 'render_failed' });
  expect(await db.balances(accountId)).toMatchObject({ held: 0n, available: 1_000_000n, spent: 0n });
  expect(await db.faults(accountId)).toEqual([]);
});

test('as much as one job can make is charged in full', async () => {
  const { jobId, accountId } = await submitted();
  await settler().settleFrom(finished(jobId, success(100_000)));
  expect((await db.balances(accountId)).spent).toBe(4_000_000n);
});

test('facts the database cannot hold do not keep a success from being settled', async () => {
  const { jobId } = await submitted();
  const { output } = success();
  const odd = { ...output, engine: 'e\0\ud800', contentType: 'image/png\0' };
  const status = { phase: 'Succeeded', output: odd } as RenderJobStatus;
  expect(await settler().settleFrom(finished(jobId, status))).toBe('settled');
  const [job] = await db.sql`select status, output_content_type from jobs where id = ${jobId}`;
  expect(job).toEqual({ status: 'succeeded', output_content_type: 'image/png' });
});

test('a status moves forward only', async () => {
  const { jobId } = await submitted();
  const begin = async (uid: string) => {
    const [row] = await db.sql<{ task: bigint | null }[]>`select begin_job(${jobId}, ${uid}) as task`;
    return row?.task ?? null;
  };
  expect(await begin('uid-1')).not.toBeNull();
  expect(await begin('uid-1')).toBeNull();
  await settler().settleFrom(finished(jobId, { phase: 'Failed' }));
  expect(await begin('uid-1')).toBeNull();
  expect(await events(jobId)).toEqual(['queued', 'processing', 'failed']);
});

test.each<[RenderJobStatus, object]>([
  [
    { phase: 'Failed' },
    { code: 'processing_failed', message: 'The render did not complete.', reason: 'render_failed' },
  ],
  [
    { phase: 'Failed', failure: { code: 'face_not_detected', message: ' No face. ' } },
    { code: 'face_not_detected', message: 'No face.', reason: 'render_failed' },
  ],
  [
    {
      phase: 'Failed',
      conditions: [
        { type: 'Failed', status: 'True', reason: 'DeadlineExceeded', message: '', lastTransitionTime: '' },
      ],
    },
    { code: 'processing_failed', message: 'The job took too long.', reason: 'timed_out' },
  ],
  [
    { phase: 'Failed', failure: { code: 'odd' as 'processing_failed', message: 'x' } },
    { code: 'processing_failed', message: 'x', reason: 'render_failed' },
  ],
])('a failure is told to its owner in the codes of the API: %j', (status, failure) => {
  expect(failureOf(finished('job', status))).toEqual(failure);
});

test('a message the database cannot hold does not keep a job from ending', async () => {
  const { jobId } = await submitted();
  const failure = { code: 'processing_failed' as const, message: 'a\0b\ud800' };
  expect(await settler().settleFrom(finished(jobId, { phase: 'Failed', failure }))).toBe('settled');
});

test('batches of several processes over the same jobs, in any order, beside single settlements and submits, settle each once and wait for nobody for ever', async () => {
  const accounts = await Promise.all([1, 2, 3].map(() => db.account(20)));
  const submit = db.submitter();
  const jobs: string[] = [];
  for (let i = 0; i < 60; i++)
    jobs.push((await submit((accounts[i % 3] as (typeof accounts)[0]).submission())).jobId);
  const settled: string[] = [];
  const batches = [0, 1, 2].map((process) => {
    const { settleFrom } = settler(({ jobId }) => settled.push(jobId));
    const order =
      process === 0 ? jobs : process === 1 ? jobs.toReversed() : jobs.toSorted(() => Math.random() - 0.5);
    return order.map((id) => settleFrom(finished(id, success())));
  });
  const singles = jobs.map(async (id) => {
    const [row] = await db.sql<{ outcome: string }[]>`
      select outcome from settle_job(${id}, null, null, 'processing_failed', 'x', 'render_failed', null)`;
    if (row?.outcome === 'settled') settled.push(id);
    return row?.outcome;
  });
  const more = accounts.flatMap((account) => Array.from({ length: 10 }, () => submit(account.submission())));
  const outcomes = await Promise.all([...batches.flat(), ...singles]);
  await Promise.all(more);
  expect(new Set(outcomes)).toEqual(new Set(['settled', 'already']));
  expect(settled.toSorted()).toEqual(jobs.toSorted());
  for (const { accountId } of accounts) expect(await db.faults(accountId)).toEqual([]);
});

test('a job that cannot be settled does not keep those that ended with it from being settled', async () => {
  const [one, other] = [await submitted(), await submitted()];
  const { settleFrom } = settler();
  const outcomes = await Promise.all([
    settleFrom(finished(one.jobId, success())),
    settleFrom(finished('job-nobody-knows', success())),
    settleFrom(
      finished(other.jobId, {
        ...success(),
        output: { ...success().output, unit: 'second' },
      } as RenderJobStatus),
    ),
  ]);
  expect(outcomes).toEqual(['settled', 'unknown', 'settled']);
  expect((await db.balances(one.accountId)).spent).toBe(40_000n);
  expect((await db.balances(other.accountId)).spent).toBe(0n);
});

test('the course of a job is kept with its outcome, in the same transaction and once, without signed links', async () => {
  const { jobId } = await submitted();
  const message = (text: string) => ({
    type: 'Ready',
    status: 'False' as const,
    reason: 'WorkFailed',
    message: text,
  });
  const status: RenderJobStatus = {
    ...{ phase: 'Failed', attempt: 3, agent: 'b' },
    attempts: [
      {
        ...{ number: 3, agent: 'b', endTime: '2026-01-01T00:00:02Z', reason: 'WorkFailed' },
        message: 'GET http://10.0.0.7:9000/in?signature=secret answered 500\0',
      },
    ],
    conditions: [
      { ...message('It failed: https://s3/x?sig=secret (one)'), lastTransitionTime: '2026-01-01T00:00:02Z' },
    ],
  };
  await Promise.all([1, 2, 3].map(() => settler().settleFrom(finished(jobId, status))));
  const rows = await db.sql<{ history: object }[]>`select history from job_histories where job_id = ${jobId}`;
  expect(rows).toHaveLength(1);
  expect(rows[0]?.history).toEqual({
    reason: 'WorkFailed',
    message: 'It failed: https://s3/x?… (one)',
    attempts: [
      {
        ...{
          number: 3,
          agent: 'b',
          started_at: null,
          ended_at: '2026-01-01T00:00:02Z',
          reason: 'WorkFailed',
        },
        message: 'GET http://10.0.0.7:9000/in?… answered 500',
      },
    ],
    attempted: 3,
    stages: [],
  });
  expect(JSON.stringify(rows)).not.toContain('secret');

  // A success that cannot be billed is told by its fault.
  const other = await submitted();
  await settler().settleFrom(finished(other.jobId, { phase: 'Succeeded' }));
  const [row] = await db.sql<{ history: { message: string } }[]>`
    select history from job_histories where job_id = ${other.jobId}`;
  expect(row?.history.message).toBe('it names no output');
  // Nothing is kept of an outcome that was not taken.
  await settler().settleFrom(finished(other.jobId, status, 'uid-other'));
  expect(await db.sql`select 1 from job_histories where job_id = ${other.jobId}`).toHaveLength(1);
});
