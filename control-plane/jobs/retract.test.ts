import { silentLogger } from '@semblance/common/logging';
import { testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { removeOldRetractions } from '../chores/housekeeping.ts';
import { openDatabase } from '../storage/database.ts';
import { StorageError, sqlState } from '../storage/sql.ts';
import { createRetractor, type UnknownSubmit } from './retract.ts';
import { createSubmit } from './submit.ts';

let db: Awaited<ReturnType<typeof testDatabase>>;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

/** Locks the account's row, for which a submit then waits, until it is released. */
async function holding(accountId: string) {
  let letGo = () => {};
  let held = () => {};
  const begun = new Promise<void>((resolve) => (held = resolve));
  const ended = db.sql.begin(async (tx) => {
    await tx`select 1 from account_balances where account_id = ${accountId} for no key update`;
    held();
    await new Promise<void>((resolve) => (letGo = resolve));
  });
  await begun;
  return async () => {
    letGo();
    await ended;
  };
}

/** Submits through a control plane that gives the database this long to answer. */
function impatient(url = db.url, deadlineMs = 300) {
  const unknown: UnknownSubmit[] = [];
  const database = openDatabase({ url, deadlineMs, statementTimeoutMs: 60_000, connectMs: 20_000 });
  const onUnknown = (submit: UnknownSubmit) => unknown.push(submit);
  const submit = createSubmit({ database, onCommitted: () => {}, onUnknown, webhooks: false });
  return { submit, unknown, close: () => database.close() };
}

const cancel = async (accountId: string, jobId: string) => {
  await db.sql`select cancel_job(${jobId}, ${accountId})`;
  return true;
};
const retractor = () =>
  createRetractor({ database: db.database, canceller: { cancel }, logger: silentLogger() });

const jobsOf = (accountId: string) =>
  db.sql<{ id: string; status: string; reason: string | null }[]>`
    select id, status, reason from jobs where account_id = ${accountId}`;
const noteOf = (jobId: string) => db.sql`select 1 from retracted_submits where job_id = ${jobId}`;

test('a submit that is carried out after it was answered as failed is cancelled, and nothing stays held', async () => {
  const account = await db.account(1);
  const caller = impatient();
  const letGo = await holding(account.accountId);
  await expect(caller.submit(account.submission())).rejects.toThrow(StorageError);
  expect(caller.unknown).toEqual([{ jobId: expect.stringMatching(/^job-/), accountId: account.accountId }]);

  // Tests of other databases wait for locks of the same server.
  const waiting = () =>
    db.sql`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
  await expect.poll(waiting).toHaveLength(1);
  const ending = new AbortController();
  const { retract, run } = retractor();
  const running = run(ending.signal);
  retract(caller.unknown[0] as UnknownSubmit);
  // Both wait for the account now, the submit first.
  await expect.poll(waiting).toHaveLength(2);
  await letGo();
  await expect
    .poll(() => jobsOf(account.accountId))
    .toEqual([{ id: caller.unknown[0]?.jobId, status: 'failed', reason: 'cancelled' }]);
  expect(await db.balances(account.accountId)).toMatchObject({ held: 0n, available: 1_000_000n, spent: 0n });
  expect(await db.faults(account.accountId)).toEqual([]);
  ending.abort();
  await running;
  await caller.close();
});

test('a submit whose statement arrives after it was taken back is refused', async () => {
  const { accountId, submission } = await db.account(1);
  const jobId = 'job-taken-back';
  const ending = new AbortController();
  const { retract, run } = retractor();
  const running = run(ending.signal);
  retract({ jobId, accountId });
  retract({ jobId, accountId });
  await expect.poll(() => noteOf(jobId)).toHaveLength(1);

  const { capability, inputs, parameters } = submission();
  const request = (job: string) => ({
    job,
    account: accountId,
    capability,
    parameters,
    callback: null,
    idempotency_key: null,
    body_sha256: '00',
    inputs: Object.entries(inputs).map(([role, key]) => ({ role, key, kind: 'image' })),
  });
  const late = db.sql`select submit_jobs(${db.sql.json([request(jobId)])}::jsonb)`;
  await expect(late).rejects.toSatisfy((error) => sqlState(error) === '23000');
  expect(await jobsOf(accountId)).toEqual([]);
  expect((await db.balances(accountId)).held).toBe(0n);
  // Another one is carried out as usual.
  await db.sql`select submit_jobs(${db.sql.json([request('job-not-taken-back')])}::jsonb)`;
  expect(await jobsOf(accountId)).toMatchObject([{ id: 'job-not-taken-back', status: 'queued' }]);
  ending.abort();
  await running;
});

test('with an Idempotency-Key nothing is taken back: the retry finds the job', async () => {
  const account = await db.account(1);
  const caller = impatient();
  const letGo = await holding(account.accountId);
  const submission = account.submission({ idempotencyKey: 'order-1' });
  await expect(caller.submit(submission)).rejects.toThrow(StorageError);
  await letGo();
  await expect.poll(() => jobsOf(account.accountId)).toHaveLength(1);
  const [job] = await jobsOf(account.accountId);
  expect(await db.submitter()(submission)).toEqual({ jobId: job?.id, replayed: true });
  expect(caller.unknown).toEqual([]);
  await caller.close();
});

test('nothing is taken back of what was never sent, or what the database refused', async () => {
  const account = await db.account(0);
  const away = impatient(db.url.replace(/:\d+\//, ':1/'));
  await expect(away.submit(account.submission())).rejects.toThrow('the database does not answer');
  expect(away.unknown).toEqual([]);
  await away.close();
  const refused = impatient(db.url, 25_000);
  await expect(refused.submit(account.submission())).rejects.toMatchObject({ code: 'insufficient_balance' });
  expect(refused.unknown).toEqual([]);
  await refused.close();
});

test('a note is kept for a week, and then swept', async () => {
  await db.sql`
    insert into retracted_submits (job_id, at)
    values ('job-old', now() - interval '7 days 1 minute'), ('job-young', now() - interval '6 days 23 hours')`;
  await removeOldRetractions(db.sql);
  expect([await noteOf('job-old'), await noteOf('job-young')]).toMatchObject([[], [{}]]);
});
