import { flatRate } from '@semblance/testkit/control-plane/rates';
import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { setRates } from './rate-card.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

type Account = Awaited<ReturnType<TestDatabase['account']>>;

const submitted = async (account: Account, jobs: number) =>
  (await Promise.all(Array.from({ length: jobs }, () => db.submitter()(account.submission())))).map(
    ({ jobId }) => jobId,
  );
/** @param milliUnits of the output; undefined: the job failed */
const settle = (jobId: string, milliUnits?: number) =>
  milliUnits === undefined
    ? db.sql`select settle_job(${jobId}, null, null, 'processing_failed', 'failed', 'render_failed', null)`
    : db.sql`select settle_job(${jobId}, null, ${db.sql.json(output(milliUnits))}::jsonb, null, null, null, null)`;
/** Returns the transfers of a job after its hold. */
const endOf = async (jobId: string) =>
  (
    await db.sql`select kind from ledger_transfers where job_id = ${jobId} and kind <> 'hold' order by id`
  ).map(({ kind }) => kind);
const unsettled = async (accountId: string) =>
  (await db.sql`select 1 from jobs where account_id = ${accountId} and settled_at is null`).length;

async function expectOpen(account: Account, open: number) {
  expect(await db.holdsOpen(account.accountId)).toBe(open);
  expect(await unsettled(account.accountId)).toBe(open);
  expect(await db.faults(account.accountId)).toEqual([]);
}

test('open holds go up with each hold and down once with its end, however the job ended', async () => {
  const account = await db.account(10);
  await expectOpen(account, 0);
  const [a, b, c, d, e] = (await submitted(account, 5)) as [string, string, string, string, string];
  await expectOpen(account, 5);
  // The hold is for one image and a half.
  await settle(a, 1_000);
  expect(await endOf(a)).toEqual(['capture', 'excess']);
  await expectOpen(account, 4);
  await settle(b, 5_000);
  expect(await endOf(b)).toEqual(['capture', 'shortfall']);
  await expectOpen(account, 3);
  await settle(c, 1_500);
  expect(await endOf(c)).toEqual(['capture']);
  await expectOpen(account, 2);
  await settle(d);
  expect(await endOf(d)).toEqual(['release']);
  await expectOpen(account, 1);
  // A repeated call changes nothing.
  await settle(d, 1_000);
  await expectOpen(account, 1);
  await db.sql`select cancel_job(${e}, ${account.accountId})`;
  expect(await endOf(e)).toEqual(['release']);
  await expectOpen(account, 0);
});

test('what costs nothing is counted all the same', async () => {
  const account = await db.account(0);
  const free = { capability: 'face-swap-image', rateMicros: 0n, minimumMicros: 0n };
  await setRates(db.sql, flatRate({ ...free, accountId: account.accountId }));
  const [jobId = ''] = await submitted(account, 1);
  expect(await db.balances(account.accountId)).toMatchObject({ held: 0n });
  await expectOpen(account, 1);
  await settle(jobId, 1_000);
  await expectOpen(account, 0);
});

test('top-ups and sessions leave them alone', async () => {
  const account = await db.account(1);
  await submitted(account, 2);
  await db.sql`
    insert into ledger_transfers (account_id, kind, debit, credit, amount_micros)
    values (${account.accountId}, 'top_up', 'funding', 'available', 1000000)`;
  await db.sql`select reserve_block('sess-1', ${account.accountId}, 1000)`;
  expect(await db.holdsOpen(account.accountId)).toBe(2);
});

test('batches of submits and of settlements count each job for its own account', async () => {
  const [a, b] = [await db.account(10), await db.account(10)];
  const submit = db.submitter();
  const jobs = await Promise.all(
    Array.from({ length: 40 }, (_, i) => submit((i % 4 === 0 ? a : b).submission())),
  );
  await expectOpen(a, 10);
  await expectOpen(b, 30);
  const requests = jobs.slice(0, 30).map(({ jobId }, i) => ({
    job: jobId,
    output: i % 3 === 0 ? null : output(i * 100),
    error_code: i % 3 === 0 ? 'processing_failed' : null,
    error_message: i % 3 === 0 ? 'failed' : null,
  }));
  // Each of them twice in one batch.
  await db.sql`select * from settle_jobs(${db.sql.json([...requests, ...requests])}::jsonb)`;
  await expectOpen(a, 2);
  await expectOpen(b, 8);
});

test('what is rolled back was not counted, neither a submit nor a settlement', async () => {
  const account = await db.account(10);
  const [jobId = ''] = await submitted(account, 1);
  const request = {
    job: 'job-undone',
    account: account.accountId,
    capability: 'face-swap-image',
    inputs: ['image', 'face'].map((role) => ({ role, key: account.files.image, kind: 'image' })),
    parameters: {},
    body_sha256: '00',
  };
  const undone = db.sql.begin(async (tx) => {
    const [{ outcome } = {}] = await tx`
      select (result).outcome from submit_jobs(${tx.json([request])}::jsonb)`;
    expect(outcome).toBe('accepted');
    await tx`select settle_job(${jobId}, null, null, 'processing_failed', 'failed', 'render_failed', null)`;
    await tx`select settle_job('job-undone', null, null, 'processing_failed', 'failed', 'render_failed', null)`;
    const [row] = await tx`select holds_open from account_balances where account_id = ${account.accountId}`;
    expect(row?.holds_open).toBe(0);
    throw new Error('undo');
  });
  await expect(undone).rejects.toThrow('undo');
  await expectOpen(account, 1);
});

test('with submits and settlements at once an account never has more in flight than its ceiling', async () => {
  const account = await db.account(100);
  await db.sql`update accounts set jobs_in_flight_limit = 5 where id = ${account.accountId}`;
  const submits = [db.submitter(), db.submitter()];
  let accepted = 0;
  let refused = 0;
  let most = 0;
  let over = false;
  const customer = async (n: number) => {
    for (let i = 0; i < 25; i++) {
      const result = await submits[n % 2]?.(account.submission()).catch((error) => error);
      if (result?.code === 'at_capacity') refused++;
      else {
        accepted++;
        await settle(result.jobId, i % 2 ? 1_000 : undefined);
      }
    }
  };
  const looker = async () => {
    while (!over) most = Math.max(most, await unsettled(account.accountId));
  };
  const looking = looker();
  await Promise.all(Array.from({ length: 12 }, (_, n) => customer(n))).finally(() => {
    over = true;
  });
  await looking;
  expect(accepted + refused).toBe(300);
  expect(refused).toBeGreaterThan(0);
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(5);
  await expectOpen(account, 0);
  // The whole ceiling can be used, and no more.
  const last = await Promise.allSettled(
    Array.from({ length: 9 }, (_, n) => submits[n % 2]?.(account.submission())),
  );
  expect(last.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
  await expectOpen(account, 5);
});
