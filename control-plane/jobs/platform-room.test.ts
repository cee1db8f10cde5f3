import { setTimeout as delay } from 'node:timers/promises';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Statements } from '../storage/sql.ts';

let db: TestDatabase;
type Account = Awaited<ReturnType<TestDatabase['account']>>;
let account: Account;
beforeEach(async () => {
  db = await testDatabase();
  account = await db.account(1_000);
  await db.sql`update settings set jobs_in_flight_per_account = 1000000`;
});
afterEach(() => db.close());

const ceiling = (jobs: number) => db.sql`update settings set jobs_in_flight = ${jobs}`;
const room = async () => (await db.sql`select platform_room() as n`)[0]?.n as number;
const inFlight = async () =>
  (await db.sql`select count(*)::int as n from jobs where settled_at is null`)[0]?.n as number;

/** The known upper bound of jobs in flight, if anybody has counted. */
const known = async () =>
  (
    await db.sql<{ most: number | null }[]>`
      select (p.counted + s.last_value - p.up_to)::int as most from platform_in_flight p, ledger_transfers_id_seq s`
  )[0]?.most ?? undefined;

/** Submits until it is known; other work on the server, in any database, may delay it. */
async function untilKnown(): Promise<number> {
  for (;;) {
    await submit(db.sql, 5);
    const most = await known();
    if (most !== undefined) return most;
  }
}

let made = 0;
/** Submits in one transaction. */
async function submit(sql: Statements, jobs: number, of = account): Promise<string[]> {
  const requests = Array.from({ length: jobs }, () => ({
    job: `job-${++made}`,
    account: of.accountId,
    capability: 'face-swap-image',
    inputs: ['image', 'face'].map((role) => ({ role, key: of.files.image, kind: 'image' })),
    parameters: {},
    body_sha256: '00',
  }));
  const rows = await sql<{ outcome: string; job_id: string }[]>`
    select (result).outcome, (result).job_id from submit_jobs(${db.sql.json(requests)}::jsonb)`;
  return rows.filter(({ outcome }) => outcome === 'accepted').map(({ job_id }) => job_id);
}
const settle = (jobIds: string[]) => db.sql`
  select settle_job(id, null, null, 'processing_failed', 'failed', 'render_failed', null)
  from unnest(${jobIds}::text[]) id`;

test('far from the ceiling nothing is counted', async () => {
  await ceiling(100_000);
  const most = await untilKnown();
  expect(most).toBeGreaterThanOrEqual(await inFlight());
  await db.sql.begin(async (tx) => {
    await tx`lock table jobs in access exclusive mode`;
    expect(await room()).toBe(100_000 - most);
  });
});

test('ends are noticed when it matters: there is always room below the ceiling, and none at it', async () => {
  await ceiling(300);
  // Far more than the ceiling, and never more than a third of it at once.
  for (let n = 0; n < 40; n++) {
    const jobs = [...(await submit(db.sql, 32)), ...(await submit(db.sql, 32))];
    expect(jobs).toHaveLength(64);
    await settle(jobs);
  }
  for (let n = 0; n < 9; n++) expect(await submit(db.sql, 32)).toHaveLength(32);
  expect(await submit(db.sql, 32)).toHaveLength(12);
  expect(await submit(db.sql, 1)).toEqual([]);
  expect(await inFlight()).toBe(300);
  // A count made when there was room is useless by then, whatever the ceiling was in between.
  await ceiling(100_000);
  expect(await submit(db.sql, 1)).toHaveLength(1);
  await ceiling(301);
  expect(await submit(db.sql, 1)).toEqual([]);
});

test('jobs of a transaction that is under way while others count are not forgotten', async () => {
  await ceiling(100);
  await submit(db.sql, 1);
  // Those of the first account would wait for it.
  const other = await db.account(1_000);
  await db.sql.begin(async (tx) => {
    // It keeps no count itself, which would stop the others from counting.
    await tx`select pg_current_xact_id()`;
    await submit(tx, 30);
    for (let n = 0; n < 2; n++) {
      await room();
      await settle(await submit(db.sql, 5, other));
    }
    expect(await inFlight()).toBe(1);
  });
  expect(await inFlight()).toBe(31);
  expect((await known()) ?? 31).toBeGreaterThanOrEqual(31);
  expect(await room()).toBeLessThanOrEqual(69);
  for (let n = 0; n < 10; n++) await submit(db.sql, 10, other);
  expect(await inFlight()).toBe(100);
});

test('what is known is never less than what is in flight, whoever begins, ends and rolls back meanwhile', async () => {
  await ceiling(400);
  const accounts = await Promise.all(Array.from({ length: 6 }, () => db.account(1_000)));
  let looks = 0;
  let over = false;
  const looker = async () => {
    for (; !over; looks++) {
      const [row] = await db.sql<{ n: number; most: number | null }[]>`
        select (select count(*)::int from jobs where settled_at is null) as n,
               (select (p.counted + s.last_value - p.up_to)::int from platform_in_flight p, ledger_transfers_id_seq s) as most`;
      // The number is read after the snapshot was taken, so it can only be greater.
      if (row?.most !== null && row?.most !== undefined) expect(row.most).toBeGreaterThanOrEqual(row.n);
    }
  };
  const customer = async (mine: Account, n: number) => {
    const submitMine = db.submitter();
    for (let i = 0; i < 30; i++) {
      const jobs = await Promise.all(Array.from({ length: 8 }, () => submitMine(mine.submission())));
      if (i % 3 === n % 3)
        await db.sql
          .begin(async (tx) => {
            await tx`
              insert into ledger_transfers (account_id, kind, debit, credit, amount_micros)
              values (${mine.accountId}, 'top_up', 'funding', 'available', 1)`;
            await delay(5);
            throw new Error('undo');
          })
          .catch(() => {});
      await settle(jobs.map(({ jobId }) => jobId));
    }
  };
  const looking = looker();
  await Promise.all(accounts.map(customer)).finally(() => {
    over = true;
  });
  await looking;
  expect(looks).toBeGreaterThan(10);
  expect(await inFlight()).toBe(0);
});

test('two control planes overstep the ceiling by no more than what both have under way', async () => {
  await ceiling(300);
  const accounts = await Promise.all(Array.from({ length: 8 }, () => db.account(1_000)));
  // A count exists, and much has ended since.
  for (let n = 0; n < 8; n++) await settle(await submit(db.sql, 20));
  const submits = [db.submitter(), db.submitter()];
  const results = await Promise.allSettled(
    Array.from({ length: 700 }, (_, i) =>
      submits[i % 2]?.((accounts[i % accounts.length] as Account).submission()),
    ),
  );
  const accepted = results.filter(({ status }) => status === 'fulfilled').length;
  expect(accepted).toBe(await inFlight());
  expect(accepted).toBeGreaterThanOrEqual(300);
  expect(accepted).toBeLessThanOrEqual(300 + 2 * 64);
  for (const result of results)
    if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'at_capacity' });
});

test('it is counted again after a crash emptied it, and where a backup of another server was restored', async () => {
  await ceiling(100_000);
  const count = async () => expect(await untilKnown()).toBeGreaterThanOrEqual(await inFlight());
  await count();
  await db.sql`truncate platform_in_flight`;
  await count();
  // Transaction ids that this server will not reach for long.
  await db.sql`update platform_in_flight set counted = null, next_after = '9000000000'`;
  await count();
});
