import { offerSessions, reserveSession } from '@semblance/testkit/control-plane/sessions';
import { output, PATIENT, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { type SettableClock, settableClock } from '@semblance/testkit/control-plane/storage-clock';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createKey, setKey } from '../accounts/accounts.ts';
import { capsSet } from '../admin/cap-changes.ts';
import { refusal as sessionRefusal } from '../sessions/order.ts';
import { openDatabase } from '../storage/database.ts';
import { adjustAccount } from './adjust.ts';
import { readCaps } from './caps.ts';

let db: TestDatabase;
let clock: SettableClock;
const accounts: string[] = [];
beforeAll(async () => {
  db = await testDatabase();
  clock = await settableClock(db.url);
  await offerSessions(db.sql);
  await db.sql`update settings set live_sessions = 1000, live_sessions_per_account = 1000, jobs_in_flight_per_account = 1000`;
});
afterAll(async () => {
  await clock.close();
  await db.close();
});

/** What is counted by key is what jobs and sessions say, and the books agree. */
afterEach(async () => {
  for (const accountId of accounts.splice(0)) {
    expect(await db.faults(accountId)).toEqual([]);
    const rows = await db.sql`
      with charged as (
        select submit_key_id as key, (settled_at at time zone 'UTC')::date as day, id, charged_micros as micros
          from jobs where account_id = ${accountId} and charged_micros > 0
        union all
        select key_id, (ended_at at time zone 'UTC')::date, id, charged_micros
          from sessions where account_id = ${accountId} and charged_micros > 0
      ), net as (
        select c.key, c.day, sum(c.micros - coalesce((select sum(t.amount_micros) from ledger_transfers t
          where t.refund_of = c.id), 0)) as micros from charged c where c.key is not null group by 1, 2
      )
      select * from net full join
        (select k.* from key_spend_days k join api_keys a on a.id = k.key_id where a.account_id = ${accountId}) k
        on k.key_id = net.key and k.day = net.day
      where net.micros is distinct from k.spent_micros`;
    expect(rows).toEqual([]);
  }
});

/** An account with money, its hold for a photo, and submits of two control planes. */
async function payer(usd = 100) {
  const account = await db.account(usd);
  accounts.push(account.accountId);
  const submits = [db.submitter(), db.submitter()];
  let turn = 0;
  const submit = (keyId = account.keyId) =>
    (submits[turn++ % 2] as (typeof submits)[0])({ ...account.submission(), keyId });
  return { ...account, submit };
}
type Payer = Awaited<ReturnType<typeof payer>>;

/** Of a photo; one and a half of it are charged so much. */
const HOLD = 60_000n;

const capKey = (keyId: string, cap: { day?: bigint; month?: bigint }) =>
  setKey(db.sql, keyId, { scopes: [], capDayMicros: cap.day, capMonthMicros: cap.month });
const capAccount = (accountId: string, cap: { day?: bigint; month?: bigint }) =>
  db.sql.begin((tx) =>
    capsSet(tx, { accountId, caps: { capDayMicros: cap.day, capMonthMicros: cap.month } }),
  );

const CAPPED: readonly [what: string, cap: (of: Payer, micros: bigint) => Promise<unknown>][] = [
  ['a day of a key', ({ keyId }, day) => capKey(keyId, { day })],
  ['a month of a key', ({ keyId }, month) => capKey(keyId, { month })],
  ['a day of an account', ({ accountId }, day) => capAccount(accountId, { day })],
  ['a month of an account', ({ accountId }, month) => capAccount(accountId, { month })],
];

/** Returns the jobs of submits that were admitted, and the messages of the others. */
async function outcomesOf(submits: readonly Promise<{ jobId: string }>[]) {
  const results = await Promise.allSettled(submits);
  return {
    jobs: results.flatMap((result) => (result.status === 'fulfilled' ? [result.value.jobId] : [])),
    refused: results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : [])),
  };
}

const settle = (jobId: string, result: 'succeeded' | 'failed') =>
  result === 'succeeded'
    ? db.sql`select * from settle_job(${jobId}, null, ${db.sql.json(output(1500))}, null, null, null, null)`
    : db.sql`select * from settle_job(${jobId}, null, null, 'processing_failed', 'x', 'render_failed', null)`;

describe.each(CAPPED)('the cap of %s', (_what, cap) => {
  test.each([
    ['a micro-dollar short of one more', -1n, 10],
    ['exactly so much', 0n, 11],
    ['a micro-dollar more', 1n, 11],
  ])('admits of 32 submits at once what it leaves: %s', async (_border, more, admitted) => {
    const account = await payer();
    await cap(account, 11n * HOLD + more);
    const { jobs, refused } = await outcomesOf(Array.from({ length: 32 }, () => account.submit()));
    expect(jobs).toHaveLength(admitted);
    const held = (await db.balances(account.accountId)).held;
    expect(held).toBe(BigInt(admitted) * HOLD);
    for (const error of refused)
      expect(error).toMatchObject({ code: 'insufficient_balance', httpStatus: 402 });
  });

  test('takes what a failed job held again, and what a job was charged never', async () => {
    const account = await payer();
    await cap(account, 8n * HOLD);
    const first = await outcomesOf(Array.from({ length: 32 }, () => account.submit()));
    expect(first.jobs).toHaveLength(8);
    // While others submit, three fail and five are charged: what is charged stays, so that three find room, whenever.
    const [again] = await Promise.all([
      outcomesOf(Array.from({ length: 24 }, () => account.submit())),
      ...first.jobs.map((jobId, i) => settle(jobId, i < 3 ? 'failed' : 'succeeded')),
    ]);
    const later = await outcomesOf(Array.from({ length: 8 }, () => account.submit()));
    expect(again.jobs.length + later.jobs.length).toBe(3);
    expect(await db.balances(account.accountId)).toMatchObject({ spent: 5n * HOLD, held: 3n * HOLD });
    for (const jobId of [...again.jobs, ...later.jobs]) await settle(jobId, 'succeeded');
    expect((await outcomesOf([account.submit()])).jobs).toEqual([]);
  });

  test('gives sessions that open at once as many seconds as it leaves, and holds them until their end', async () => {
    const account = await payer();
    const others = Array.from({ length: 4 }, () => openDatabase({ url: db.url, ...PATIENT }));
    const { accountId, keyId } = account;
    // A voice is 0.06 USD a minute: fifteen whole minutes, and less than the shortest session.
    const [{ rate } = { rate: 0n }] = await db.sql<{ rate: bigint }[]>`
      select (rates -> -1 ->> 'rate_micros')::bigint as rate from rates_in_force('voice', null)`;
    await cap(account, 15n * rate + rate / 60n);
    try {
      const open = (i: number) =>
        reserveSession((others[i % 4] as TestDatabase['database']).sql, accountId, { keyId });
      const opened = await Promise.all(Array.from({ length: 32 }, (_, i) => open(i)));
      const reserved = opened.filter(({ outcome }) => outcome === 'reserved');
      expect(reserved).toHaveLength(15);
      const cost = reserved.reduce((sum, { max_cost_micros: micros }) => sum + (micros ?? 0n), 0n);
      expect(cost).toBe(15n * rate);
      const refused = opened.find(({ outcome }) => outcome !== 'reserved');
      expect(opened.filter(({ outcome }) => outcome === 'capped')).toHaveLength(17);
      expect(
        sessionRefusal({ connect_seconds: null, ...(refused as (typeof opened)[0]) }, 'voice'),
      ).toMatchObject({
        code: 'insufficient_balance',
        message: expect.stringMatching(/^The cap of this (key|account), .*are held\. The shortest session/),
      });
      await db.sql`select refuse_sessions(${reserved.slice(0, 2).map(({ id }) => id)}::text[])`;
      const next = await reserveSession(db.sql, accountId, { keyId, minutes: 60 });
      expect(next).toMatchObject({ outcome: 'reserved', max_seconds: 121 });
    } finally {
      await Promise.all(others.map((other) => other.close()));
    }
  });

  test('of nothing admits nothing; none admits again', async () => {
    const account = await payer();
    await cap(account, 0n);
    await expect(account.submit()).rejects.toMatchObject({ code: 'insufficient_balance' });
    await cap(account, -1n);
    await account.submit();
  });
});

describe('caps together', () => {
  test('the tightest counts, and the refusal says what is spent and held of it', async () => {
    const account = await payer();
    const { accountId, keyId } = account;
    await capAccount(accountId, { day: 10n * HOLD, month: 100n * HOLD });
    await capKey(keyId, { day: 2n * HOLD + 1n });
    await settle((await account.submit()).jobId, 'succeeded');
    await account.submit();
    await expect(account.submit()).rejects.toMatchObject({
      message: expect.stringMatching(
        /^The cap of this key, 0\.120001 USD a day, leaves 0\.000001 USD: 0\.06 USD are spent and 0\.06 USD are held\. This job needs a hold of 0\.06 USD\. The next day begins on \d{4}-\d\d-\d\d, 00:00 UTC\.$/,
      ),
    });
    // Another key of the account has its own, and the account's.
    const other = await createKey(db.sql, accountId);
    const { jobs } = await outcomesOf(Array.from({ length: 32 }, () => account.submit(other.keyId)));
    expect(jobs).toHaveLength(8);
    expect(await readCaps(db.sql, { accountId })).toMatchObject([
      { period: 'day', capMicros: 10n * HOLD, spentMicros: HOLD, heldMicros: 9n * HOLD },
      { period: 'month', capMicros: 100n * HOLD, spentMicros: HOLD, heldMicros: 9n * HOLD },
    ]);
    expect(await readCaps(db.sql, { accountId, keyId })).toMatchObject([
      { period: 'day', capMicros: 2n * HOLD + 1n, spentMicros: HOLD, heldMicros: HOLD },
      { period: 'month', capMicros: undefined, spentMicros: HOLD, heldMicros: HOLD },
    ]);
  });

  test('a repeat of an admitted submit is answered, whatever is left; a submit without a key has the account’s alone', async () => {
    const account = await payer();
    const submit = db.submitter();
    const submission = { ...account.submission(), keyId: account.keyId, idempotencyKey: 'order-1' };
    await capKey(account.keyId, { day: HOLD });
    const { jobId } = await submit(submission);
    expect(await submit(submission)).toEqual({ jobId, replayed: true });
    await expect(account.submit()).rejects.toMatchObject({ code: 'insufficient_balance' });
    await submit(account.submission());
    await capAccount(account.accountId, { day: 2n * HOLD });
    await expect(submit(account.submission())).rejects.toMatchObject({ code: 'insufficient_balance' });
  });

  test('a refund lessens what is spent, of the day and the key of its charge', async () => {
    const account = await payer();
    const { accountId, keyId } = account;
    await capKey(keyId, { day: HOLD });
    const { jobId } = await account.submit();
    await settle(jobId, 'succeeded');
    await expect(account.submit()).rejects.toMatchObject({ code: 'insufficient_balance' });
    const refund = { accountId, refundOf: jobId, reference: 'r', reason: 'x', intoDebt: false };
    await db.sql.begin((tx) => adjustAccount(tx, { ...refund, amountMicros: HOLD }));
    await account.submit();
  });

  test('without money the balance is named, not the cap', async () => {
    const account = await payer(0.01);
    await capKey(account.keyId, { day: 0n });
    await expect(account.submit()).rejects.toMatchObject({
      message: expect.stringContaining('0.01 USD are available'),
    });
  });

  test.each([-2n, 2n ** 53n, -(2n ** 63n)])('%d is no cap', async (micros) => {
    const account = await payer();
    for (const refused of [
      capKey(account.keyId, { day: micros }),
      capAccount(account.accountId, { month: micros }),
    ])
      await expect(refused).rejects.toMatchObject({ code: 'invalid_input' });
  });
});

describe('a period', () => {
  /** Moves the clock of the database to a moment. */
  async function goTo(moment: string): Promise<void> {
    const [row] = await db.sql<{ by: number }[]>`
      select extract(epoch from ${moment}::timestamptz - now())::float8 as by`;
    await clock.set(row?.by ?? 0);
  }

  test('ends at midnight UTC: what was charged counts no more, what is held still does', async () => {
    await goTo('2027-01-30T23:59:59Z');
    const account = await payer();
    await capKey(account.keyId, { day: 3n * HOLD, month: 5n * HOLD });
    const charged = [await account.submit(), await account.submit()];
    for (const { jobId } of charged) await settle(jobId, 'succeeded');
    const { jobId: held } = await account.submit();
    await expect(account.submit()).rejects.toMatchObject({ message: expect.stringContaining('2027-01-31') });
    await goTo('2027-01-31T00:00:00Z');
    await account.submit();
    await account.submit();
    await expect(account.submit()).rejects.toMatchObject({ message: expect.stringContaining('a day') });
    // It was held on the day before, and is charged today.
    await settle(held, 'succeeded');
    await expect(account.submit()).rejects.toMatchObject({ message: expect.stringMatching(/a (day|month)/) });
    await goTo('2027-01-31T23:59:59.999999Z');
    await expect(account.submit()).rejects.toMatchObject({ code: 'insufficient_balance' });
    await goTo('2027-02-01T00:00:00Z');
    await account.submit();
    await expect(account.submit()).rejects.toMatchObject({ message: expect.stringContaining('2027-02-02') });
  });

  test('of a month ends with the month, whatever its length', async () => {
    await goTo('2028-02-29T12:00:00Z');
    const account = await payer();
    await capAccount(account.accountId, { month: HOLD });
    await settle((await account.submit()).jobId, 'succeeded');
    await goTo('2028-02-29T23:59:59Z');
    await expect(account.submit()).rejects.toMatchObject({
      message: expect.stringContaining('The next month begins on 2028-03-01, 00:00 UTC.'),
    });
    await goTo('2028-03-01T00:00:00Z');
    await account.submit();
  });
});
