import { setTimeout as delay } from 'node:timers/promises';
import postgres from 'postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { output, type TestDatabase, testDatabase } from '../storage/testing.ts';
import { topUp } from './ledger.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

/** A generator of numbers in [0, 1) that a failing run can be repeated with (mulberry32). */
function randomFrom(seed: number) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

test('thousands of operations at once, with connections cut at random: the books balance at every look', async () => {
  const seed = Number(process.env.SEMBLANCE_TEST_SEED ?? Date.now() % 1_000_000);
  const random = randomFrom(seed);
  const accounts = await Promise.all([0.3, 1, 5, 0, 20].map((usd) => db.account(usd)));
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const submits = [db.submitter(), db.submitter()];
  const jobs: string[] = [];
  const known: string[] = [];
  let done = 0;
  let cut = 0;

  const operations: [number, () => Promise<unknown>][] = [
    [
      0.5,
      async () => {
        const account = pick(accounts);
        const idempotencyKey = random() < 0.5 ? `key ${Math.floor(random() * 60)}` : undefined;
        const { jobId } = await pick(submits)(account.submission({ idempotencyKey }));
        jobs.push(jobId);
      },
    ],
    [
      0.85,
      async () => {
        // Jobs of which the answer was lost are in the table all the same.
        if (random() < 0.05 || jobs.length === 0)
          jobs.push(
            ...(await db.sql<{ id: string }[]>`select id from jobs where settled_at is null limit 20`).map(
              ({ id }) => id,
            ),
          );
        const job = pick(jobs);
        const works = random() < 0.6;
        const milliUnits = random() < 0.2 ? Math.floor(random() * 4_000) : 1_000;
        await db.sql`
          select * from settle_job(${job ?? 'none'}, null, ${works ? db.sql.json(output(milliUnits)) : null}::jsonb,
            ${works ? null : 'processing_failed'}, ${works ? null : 'failed'}, ${works ? null : 'render_failed'}, null)`;
      },
    ],
    [
      0.95,
      () =>
        topUp(db.sql, {
          accountId: pick(accounts).accountId,
          amountMicros: BigInt(1 + Math.floor(random() * 500_000)),
          reference: random() < 0.5 ? `ref ${Math.floor(random() * 40)}` : undefined,
        }),
    ],
    [1, () => db.sql`select begin_job(${pick(jobs) ?? 'none'}, 'uid')`],
  ];

  const finish = Date.now() + 8_000;
  const worker = async () => {
    while (done < 3_000 && Date.now() < finish) {
      const roll = random();
      const [, operation] = operations.find(([upTo]) => roll < upTo) ?? [];
      // Refusals and cut connections are part of the game; what counts is what the books say afterwards.
      await operation?.().catch((error: Error) => known.push(error.message));
      done++;
    }
  };
  const control = postgres(db.url, { max: 1, onnotice: () => {} });
  const saboteur = async () => {
    while (done < 3_000 && Date.now() < finish) {
      await delay(20 + random() * 60);
      const victims = await control`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle' order by random() limit 2`;
      cut += victims.length;
    }
  };
  let looks = 0;
  const auditor = async () => {
    while (done < 3_000 && Date.now() < finish) {
      await delay(300);
      const { accountId } = pick(accounts);
      const faults = await control`select * from ledger_faults(${accountId})`;
      expect(faults, `seed ${seed}`).toHaveLength(0);
      looks++;
    }
  };
  await Promise.all([...Array.from({ length: 24 }, worker), saboteur(), auditor()]);

  expect(done, `seed ${seed}`).toBeGreaterThan(500);
  expect(cut).toBeGreaterThan(5);
  expect(looks).toBeGreaterThan(2);
  for (const { accountId } of accounts) {
    expect([...(await control`select * from ledger_faults(${accountId})`)], `seed ${seed}`).toEqual([]);
    const { available } = await db.balances(accountId);
    const [row] = await control`
      select coalesce(sum(amount_micros), 0)::bigint as shortfall from ledger_transfers where account_id = ${accountId} and kind = 'shortfall'`;
    // Only what was collected beyond a hold can have brought it below zero.
    expect(available, `seed ${seed}`).toBeGreaterThanOrEqual(-BigInt(row?.shortfall));
  }
  // Each key made at most one job, each job owes its resource and its first event or had them.
  const twice = await control`select account_id, key from idempotency_keys group by 1, 2 having count(*) > 1`;
  expect(twice).toHaveLength(0);
  const keyless = await control`
    select 1 from idempotency_keys i left join jobs j on j.id = i.job_id and j.account_id = i.account_id where j.id is null`;
  expect(keyless).toHaveLength(0);
  const owed = await control`
    select j.id from jobs j left join outbox o on o.job_id = j.id
    group by j.id, j.status having count(*) filter (where o.kind = 'renderjob') <> 1
      or count(*) filter (where o.kind = 'event' and o.status = 'queued') <> 1
      or count(*) filter (where o.kind = 'event' and o.status in ('succeeded', 'failed')) <> (j.settled_at is not null)::int`;
  expect(owed, `seed ${seed}`).toHaveLength(0);

  // Whatever is still pending can be ended, and then nothing is held.
  for (const { id } of await db.sql`select id from jobs where settled_at is null`)
    await db.sql`select * from settle_job(${id}, null, null, 'processing_failed', 'ended', 'render_failed', null)`;
  for (const { accountId } of accounts) expect((await db.balances(accountId)).held).toBe(0n);
  await control.end();
});
