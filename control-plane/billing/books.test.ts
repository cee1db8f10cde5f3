import { setTimeout as delay } from 'node:timers/promises';
import { END_REASONS } from '@semblance/common/live-session';
import { flatRate } from '@semblance/testkit/control-plane/rates';
import { holdSlot, offerSessions, reserveSession } from '@semblance/testkit/control-plane/sessions';
import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import postgres from 'postgres';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { estimate } from '../jobs/estimate.ts';
import { summarizeUsage } from '../usage/usage.ts';
import { topUp } from './ledger.ts';
import { setRates } from './rate-card.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

/** Returns a generator of numbers in [0, 1) with which a failed run can be repeated (mulberry32). */
function randomFrom(seed: number) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

type Operation = () => Promise<unknown>;

test('thousands of operations at once, with connections cut at random: the books balance at every look', async () => {
  const seed = Number(process.env.SEMBLANCE_TEST_SEED ?? Date.now() % 1_000_000);
  const random = randomFrom(seed);
  const accounts = await Promise.all([0.3, 1, 5, 0, 20].map((usd) => db.account(usd)));
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const anyAccount = () => pick(accounts);
  const submits = [db.submitter(), db.submitter()];
  const jobs: string[] = [];
  const anyJob = () => pick(jobs) ?? 'none';
  await offerSessions(db.sql);
  const sessions: string[] = [];
  const anySession = () => pick(sessions) ?? 'none';
  const report = (id: string, streamedMs: number, ended: boolean) => {
    const reason = random() < 0.3 ? pick(END_REASONS) : null;
    const one = { session: id, connection: 'one', streamed_ms: String(streamedMs), ended, reason };
    return db.sql`select * from report_sessions(${db.sql.json([one])}::jsonb, null)`;
  };
  const went: Record<string, number> = {};

  // By weight; refusals and cut connections are included.
  const operations: Record<string, [number, Operation]> = {
    submit: [
      44,
      async () => {
        const idempotencyKey = random() < 0.5 ? `key ${Math.floor(random() * 60)}` : undefined;
        const { jobId } = await pick(submits)(anyAccount().submission({ idempotencyKey }));
        jobs.push(jobId);
      },
    ],
    settleJob: [
      26,
      async () => {
        // Jobs whose answer was lost are in the table all the same.
        if (random() < 0.05 || jobs.length === 0)
          jobs.push(
            ...(await db.sql<{ id: string }[]>`select id from jobs where settled_at is null limit 20`).map(
              ({ id }) => id,
            ),
          );
        const works = random() < 0.6;
        const milliUnits = random() < 0.2 ? Math.floor(random() * 4_000) : 1_000;
        await db.sql`
          select * from settle_job(${anyJob()}, null, ${works ? db.sql.json(output(milliUnits)) : null}::jsonb,
            ${works ? null : 'processing_failed'}, ${works ? null : 'failed'}, ${works ? null : 'render_failed'}, null)`;
      },
    ],
    cancel: [
      8,
      async () => {
        const id = anyJob();
        const [owner] = await db.sql<{ account_id: string }[]>`select account_id from jobs where id = ${id}`;
        // Sometimes another account tries it.
        const account = random() < 0.9 ? owner?.account_id : anyAccount().accountId;
        await db.sql`select * from cancel_job(${id}, ${account ?? 'acct-none'})`;
      },
    ],
    topUp: [
      5,
      () =>
        topUp(db.sql, {
          accountId: anyAccount().accountId,
          amountMicros: BigInt(1 + Math.floor(random() * 500_000)),
          reference: random() < 0.5 ? `ref ${Math.floor(random() * 40)}` : undefined,
        }),
    ],
    begin: [5, () => db.sql`select begin_job(${anyJob()}, 'uid')`],
    open: [
      8,
      async () => {
        const { id, outcome } = await reserveSession(db.sql, anyAccount().accountId, {
          capability: random() < 0.5 ? 'voice' : 'full-live-swap',
          minutes: 1 + Math.floor(random() * 5),
        });
        // One in five is left as it is, as if its process had died.
        if (outcome !== 'reserved') throw new Error(outcome);
        sessions.push(id);
        if (random() < 0.8) await holdSlot(db.sql, id);
      },
    ],
    refuse: [2, () => db.sql`select refuse_sessions(array[${anySession()}, ${anySession()}])`],
    connect: [
      6,
      () => db.sql`
        update sessions set state = 'connected', connection_id = 'one', connected_at = now(), reported_at = now()
        where id = ${anySession()} and state = 'open'`,
    ],
    // Late, out of order, beyond the ceiling, and before any connection too.
    report: [10, () => report(anySession(), Math.floor(random() * 400_000) - 1_000, random() < 0.3)],
    settle: [4, () => db.sql`select settle_session(${anySession()}, 'cancelled', null)`],
    expire: [
      2,
      async () => {
        await db.sql`update sessions set reported_at = now() - interval '1 hour' where id = ${anySession()} and ended_at is null`;
        await db.sql`select * from expire_sessions(3600, null, null, null)`;
      },
    ],
    estimate: [2, () => estimate(db.sql, anyAccount().submission(), false)],
    rates: [
      2,
      () =>
        setRates(
          db.sql,
          flatRate({
            capability: pick(['face-swap-image', 'voice', 'full-live-swap']),
            accountId: random() < 0.5 ? anyAccount().accountId : undefined,
            rateMicros: BigInt(Math.floor(random() * 80_000)),
            minimumMicros: BigInt(Math.floor(random() * 80_000)),
          }),
        ),
    ],
  };
  const bag = Object.entries(operations).flatMap(([name, [weight]]) => Array<string>(weight).fill(name));

  let done = 0;
  let cut = 0;
  let looks = 0;
  /** When one of them fails, the others end too, whatever is missing. */
  let failed = false;
  const finish = Date.now() + 8_000;
  // Runs for a while, and longer on a machine so slow that little happened by then.
  const enough = () =>
    done > 500 && cut > 5 && looks > 2 && Object.keys(operations).every((name) => (went[name] ?? 0) > 0);
  const going = () => !failed && ((done < 3_000 && Date.now() < finish) || !enough());
  const worker = async () => {
    while (going()) {
      const name = pick(bag);
      const [, operation] = operations[name] as [number, Operation];
      await operation().then(
        () => {
          went[name] = (went[name] ?? 0) + 1;
        },
        () => {},
      );
      done++;
    }
  };
  const control = postgres(db.url, { max: 1, onnotice: () => {} });
  const saboteur = async () => {
    while (going()) {
      await delay(20 + random() * 60);
      const victims = await control`
        select pg_terminate_backend(pid, 2000) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle' order by random() limit 2`;
      cut += victims.length;
    }
  };
  const auditor = async () => {
    while (going()) {
      await delay(300);
      const faults = await control`select * from ledger_faults(${anyAccount().accountId})`;
      expect(faults, `seed ${seed}`).toHaveLength(0);
      looks++;
    }
  };
  const parts = [...Array.from({ length: 24 }, worker), saboteur(), auditor()].map((part) =>
    part.catch((error: unknown) => {
      failed = true;
      throw error;
    }),
  );
  await Promise.allSettled(parts);
  await Promise.all(parts);
  // The last cut connections are gone; the pools need a moment to notice.
  await delay(100);

  expect(done, `seed ${seed}`).toBeGreaterThan(500);
  expect(cut).toBeGreaterThan(5);
  expect(looks).toBeGreaterThan(2);
  // Each kind of operation was tried, and succeeded at times.
  for (const name of Object.keys(operations)) expect(went[name], `${name}, seed ${seed}`).toBeGreaterThan(0);

  for (const { accountId } of accounts) {
    expect([...(await control`select * from ledger_faults(${accountId})`)], `seed ${seed}`).toEqual([]);
    const { available } = await db.balances(accountId);
    const [row] = await control`
      select coalesce(sum(amount_micros), 0)::bigint as shortfall from ledger_transfers where account_id = ${accountId} and kind = 'shortfall'`;
    // Only collections beyond a hold can have brought it below zero.
    expect(available, `seed ${seed}`).toBeGreaterThanOrEqual(-BigInt(row?.shortfall));
    const { succeeded, failed, inFlight, spentMicros } = await summarizeUsage(db.sql, accountId, undefined);
    const [calls] = await control`
      select (select count(*) from jobs where account_id = ${accountId})::int
           + (select count(*) from sessions where account_id = ${accountId} and created_at is not null)::int as n`;
    expect(Number(succeeded + failed + inFlight), `seed ${seed}`).toBe(calls?.n);
    expect(spentMicros, `seed ${seed}`).toBe((await db.balances(accountId)).spent);
  }
  const none = async (rows: Promise<readonly unknown[]>) =>
    expect(await rows, `seed ${seed}`).toHaveLength(0);
  // Each key made at most one job. Each job has or owes its resource and its first event; a cancelled one also owes
  // the removal of its resource.
  await none(control`select account_id, key from idempotency_keys group by 1, 2 having count(*) > 1`);
  await none(control`
    select 1 from idempotency_keys i left join jobs j on j.id = i.job_id and j.account_id = i.account_id where j.id is null`);
  await none(control`
    select j.id from jobs j left join outbox o on o.job_id = j.id
    group by j.id, j.status
    having count(*) filter (where o.kind = 'renderjob') <> 1 + (j.cancel_requested_at is not null)::int
      or count(*) filter (where o.kind = 'event' and o.status = 'queued') <> 1
      or count(*) filter (where o.kind = 'event' and o.status in ('succeeded', 'failed')) <> (j.settled_at is not null)::int`);
  // A cancelled job ends in one way only, and a charge follows the price of its submit, whatever happened to the
  // rates.
  await none(control`
    select id from jobs where cancel_requested_at is not null and (status = 'succeeded' or (settled_at is not null and reason <> 'cancelled'))`);
  await none(control`
    select id from jobs where status = 'succeeded' and charged_micros <> greatest(minimum_micros, price_of(rate_micros, milli_units))`);

  // Every pending job can be ended, and then nothing is held or reserved.
  for (const { id } of await db.sql`select id from jobs where settled_at is null`)
    await db.sql`select * from settle_job(${id}, null, null, 'processing_failed', 'ended', 'render_failed', null)`;
  await none(control`
    select 1 from sessions where ended_at is not null and charged_micros <> price_of_stream(rate_micros, streamed_ms)`);
  for (const { id } of await db.sql`select id from sessions where ended_at is null`) {
    await db.sql`select refuse_sessions(array[${id}])`;
    await db.sql`select * from settle_session(${id}, 'cancelled', null)`;
  }
  for (const { accountId } of accounts) {
    expect((await db.balances(accountId)).held).toBe(0n);
    expect([...(await control`select * from ledger_faults(${accountId})`)], `seed ${seed}`).toEqual([]);
  }
  await none(control`select 1 from account_balances where reserved_micros <> 0`);
  await control.end();
}, 150_000);
