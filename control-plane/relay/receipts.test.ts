import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestDatabase, testDatabase } from '../storage/testing.ts';
import { createReceipts } from './receipts.ts';

let db: TestDatabase;

beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

test('receipts that come in any order never wait in a circle with a batch of settlements', async () => {
  const account = await db.account();
  const submit = db.submitter();
  const ids = await Promise.all(
    Array.from({ length: 8 }, async () => (await submit(account.submission())).jobId),
  );
  ids.sort();
  const receipts = createReceipts({ database: db.database, lingerMs: 1 });
  let recorded: Promise<unknown> = Promise.resolve();
  await db.sql.begin(async (tx) => {
    // As settle_jobs locks them, stopped between the first and the rest.
    await tx`select 1 from jobs where id = ${ids[0]} for no key update`;
    recorded = Promise.all(
      ids
        .toReversed()
        .map((jobId, n) => receipts.record({ id: BigInt(n), jobId, renderJobUid: `uid-${jobId}` })),
    );
    recorded.catch(() => {});
    await delay(300);
    await tx`select 1 from jobs where id = any(${ids}::text[]) order by id for no key update`;
  });
  await recorded;
  const rows = await db.sql<{ id: string; renderjob_uid: string }[]>`
    select id, renderjob_uid from jobs where id = any(${ids}::text[])`;
  expect(rows.filter(({ id, renderjob_uid: uid }) => uid === `uid-${id}`)).toHaveLength(ids.length);
});

test('what was paid is recorded by indexes, by a plan kept since the tables were empty', async () => {
  const account = await db.account();
  const { jobId } = await db.submitter()(account.submission());
  const [debt] = await db.sql<
    { id: bigint }[]
  >`select id from outbox where job_id = ${jobId} and kind = 'renderjob'`;
  // There are few jobs: to the planner, reading the tables whole is the cheapest.
  const scans = await db.sql.begin(async (tx) => {
    const soFar = async () => {
      const rows = await tx<{ relname: string; seq_scan: bigint }[]>`
        select relname, seq_scan from pg_stat_xact_user_tables where relname in ('jobs', 'outbox') order by relname`;
      return rows.map(({ relname, seq_scan: times }) => [relname, Number(times)]);
    };
    const debts = [debt?.id, ...Array.from({ length: 40 }, (_, n) => 1_000_000 + n)].map(String);
    const before = await soFar();
    for (let times = 0; times < 8; times++)
      await tx`select record_payments(${debts}::bigint[], ${[jobId]}::text[], array['uid-a'])`;
    return { before, after: await soFar() };
  });
  expect(scans.after).toEqual(scans.before);
  const [left] = await db.sql<{ uid: string; owed: number }[]>`
    select renderjob_uid uid, (select count(*)::int from outbox o where o.job_id = j.id and kind = 'renderjob') owed
    from jobs j where id = ${jobId}`;
  expect(left).toEqual({ uid: 'uid-a', owed: 0 });
});
