import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readBalance } from './balance.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

/** Returns an account that was charged 0.04 USD × n at each of the moments. */
async function charged(moments: readonly [string, number][]) {
  const account = await db.account(100);
  const submit = db.submitter();
  for (const [at, images] of moments) {
    const { jobId } = await submit(account.submission());
    await db.sql`select * from settle_job(${jobId}, null, ${db.sql.json(output(images * 1000))}, null, null, null, ${at}::timestamptz)`;
  }
  return async (now: string) => {
    const { spentThisWeekMicros, spentThisMonthMicros, spentThisYearMicros } = await readBalance(
      db.sql,
      account.accountId,
      new Date(now),
    );
    return [spentThisWeekMicros, spentThisMonthMicros, spentThisYearMicros].map(
      (micros) => Number(micros) / 40_000,
    );
  };
}

test('weeks begin on Monday, months on the first, years on 1 January, all at midnight UTC', async () => {
  // 2025-12-29 is a Monday; its week extends into 2026.
  const spent = await charged([
    ['2025-12-28T23:59:59.999Z', 1],
    ['2025-12-29T00:00:00Z', 2],
    ['2025-12-31T23:59:59.999Z', 4],
    ['2026-01-01T00:00:00Z', 8],
    ['2026-01-04T23:59:59.999Z', 16],
  ]);
  expect(await spent('2025-12-28T23:59:59.999Z')).toEqual([1, 1, 1]);
  expect(await spent('2025-12-29T00:00:00Z')).toEqual([2, 3, 3]);
  expect(await spent('2025-12-31T23:59:59.999Z')).toEqual([6, 7, 7]);
  expect(await spent('2026-01-01T00:00:00Z')).toEqual([14, 8, 8]);
  expect(await spent('2026-01-04T23:59:59.999Z')).toEqual([30, 24, 24]);
  expect(await spent('2026-01-05T00:00:00Z')).toEqual([0, 24, 24]);
  expect(await spent('2026-02-01T00:00:00Z')).toEqual([0, 0, 24]);
  expect(await spent('2027-01-01T00:00:00Z')).toEqual([0, 0, 0]);
});

test('a charge counts on the UTC day it was booked, whatever time zone it is written in', async () => {
  const spent = await charged([['2026-03-01T00:30:00+02:00', 1]]);
  expect(await spent('2026-02-28T23:00:00Z')).toEqual([1, 1, 1]);
  expect(await spent('2026-03-01T12:00:00Z')).toEqual([1, 0, 1]);
});

test('a pending hold is neither balance nor spend', async () => {
  const account = await db.account(1);
  await db.submitter()(account.submission());
  expect(await readBalance(db.sql, account.accountId)).toEqual({
    balanceMicros: 940_000n,
    totalSpentMicros: 0n,
    totalToppedUpMicros: 1_000_000n,
    spentThisWeekMicros: 0n,
    spentThisMonthMicros: 0n,
    spentThisYearMicros: 0n,
    heldMicros: 60_000n,
    reservedMicros: 0n,
    availableMicros: 940_000n,
  });
});
