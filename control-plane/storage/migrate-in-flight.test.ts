import { setTimeout as delay } from 'node:timers/promises';
import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Migration, migrate, readMigrations } from './migrate.ts';

/** 0017: open holds are counted in the balances. What it finds is in flight, and goes on beside it. */

let all: Migration[];
let db: TestDatabase;
beforeEach(async () => {
  all = await readMigrations();
  db = await testDatabase(16);
});
afterEach(() => db.close());

const upgrade = () => migrate(db.url, all.slice(0, 17));
type Account = Awaited<ReturnType<TestDatabase['account']>>;

const submitted = async (account: Account, jobs: number) =>
  (await Promise.all(Array.from({ length: jobs }, () => db.submitter()(account.submission())))).map(
    ({ jobId }) => jobId,
  );
const fail = (jobId: string) =>
  db.sql`select settle_job(${jobId}, null, null, 'processing_failed', 'failed', 'render_failed', null)`;
const succeed = (jobId: string) =>
  db.sql`select settle_job(${jobId}, null, ${db.sql.json(output())}::jsonb, null, null, null, null)`;
/** Statements that wait for a lock. */
const waiting = async () =>
  (
    await db.sql`
      select 1 from pg_locks l join pg_stat_activity a using (pid)
      where not l.granted and a.datname = current_database()`
  ).length;

test('jobs that are in flight are counted, and count for the ceiling', async () => {
  const [busy, quiet, fresh] = [await db.account(10), await db.account(10), await db.account(10)];
  const jobs = (await submitted(busy, 7)) as [string, string, ...string[]];
  await succeed(jobs[0]);
  await fail(jobs[1]);
  const [ended = ''] = await submitted(quiet, 1);
  await succeed(ended);
  expect((await upgrade()).applied).toEqual(['0017-holds-open.sql']);

  const open = () => Promise.all([busy, quiet, fresh].map(({ accountId }) => db.holdsOpen(accountId)));
  expect(await open()).toEqual([5, 0, 0]);
  for (const { accountId } of [busy, quiet, fresh]) expect(await db.faults(accountId)).toEqual([]);
  await db.sql`update accounts set jobs_in_flight_limit = 6`;
  await submitted(busy, 1);
  await expect(submitted(busy, 1)).rejects.toMatchObject({ code: 'at_capacity' });
  // One of those that were there before.
  await fail(jobs[2] ?? '');
  await submitted(busy, 1);
  await expect(submitted(busy, 1)).rejects.toMatchObject({ code: 'at_capacity' });
  expect(await open()).toEqual([6, 0, 0]);
});

test('the release before starts again on it, and what it writes is counted', async () => {
  const account = await db.account(10);
  const [job = ''] = await submitted(account, 3);
  await upgrade();
  expect(await migrate(db.url, all.slice(0, 16))).toEqual({ applied: [], ahead: ['0017-holds-open.sql'] });
  await succeed(job);
  await submitted(account, 2);
  // As releases before make an account.
  await db.sql`insert into accounts (id, name) values ('acct-later', 'later')`;
  await db.sql`insert into account_balances (account_id) values ('acct-later')`;
  expect(await upgrade()).toEqual({ applied: [], ahead: [] });
  expect(await db.holdsOpen(account.accountId)).toBe(4);
  expect(await db.holdsOpen('acct-later')).toBe(0);
  expect(await db.faults(account.accountId)).toEqual([]);
});

test('who writes while it is applied is counted once, and nobody fails', async () => {
  const accounts = await Promise.all([100, 100, 100].map((usd) => db.account(usd)));
  await db.sql`update settings set jobs_in_flight_per_account = 100000, jobs_in_flight = 100000`;
  let upgraded = false;
  let after = 0;
  const customer = async (account: Account) => {
    for (let n = 0; after < 60; n++) {
      const [one = '', two = ''] = await submitted(account, 3);
      await (n % 2 ? succeed(one) : fail(one));
      await db.sql`select cancel_job(${two}, ${account.accountId})`;
      if (upgraded) after++;
    }
  };
  const working = Promise.all(accounts.map(customer));
  await delay(200);
  const { applied } = await upgrade();
  upgraded = true;
  expect(applied).toHaveLength(1);
  await working;
  for (const { accountId } of accounts) {
    const [row] = await db.sql`
      select count(*)::int as n from jobs where account_id = ${accountId} and settled_at is null`;
    expect(await db.holdsOpen(accountId)).toBe(row?.n);
    expect(await db.faults(accountId)).toEqual([]);
  }
}, 60_000);

test('a transaction that is under way is waited for, and no deadlock ends it', async () => {
  const account = await db.account(10);
  const [first = ''] = await submitted(account, 2);
  let applying: ReturnType<typeof upgrade> | undefined;
  await db.sql.begin(async (tx) => {
    // As far as a settlement is before its transfer moves the balance.
    await tx`lock table ledger_transfers in row exclusive mode`;
    applying = upgrade();
    await expect.poll(waiting, { timeout: 20_000 }).toBe(1);
    await tx`select settle_job(${first}, null, null, 'processing_failed', 'failed', 'render_failed', null)`;
    // Longer than it takes to find a deadlock, and than the migration waits at once.
    await delay(1_500);
  });
  expect((await applying)?.applied).toEqual(['0017-holds-open.sql']);
  expect(await db.holdsOpen(account.accountId)).toBe(1);
  expect(await db.faults(account.accountId)).toEqual([]);
});

test('submits go on while a backup keeps it waiting', async () => {
  const account = await db.account(10);
  let applying: ReturnType<typeof upgrade> | undefined;
  await db.sql.begin(async (backup) => {
    await backup`lock table account_balances, ledger_transfers in access share mode`;
    applying = upgrade();
    await expect.poll(waiting, { timeout: 20_000 }).toBe(1);
    for (let n = 0; n < 5; n++) await submitted(account, 1);
  });
  expect((await applying)?.applied).toHaveLength(1);
  expect(await db.holdsOpen(account.accountId)).toBe(5);
});
