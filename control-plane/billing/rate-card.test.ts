import { flatRate } from '@semblance/testkit/control-plane/rates';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { estimate } from '../jobs/estimate.ts';
import { readPricing } from './pricing.ts';
import { resetRates, setRates } from './rate-card.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

type Account = Awaited<ReturnType<TestDatabase['account']>>;

/** Returns the rate of a photo by estimate, by the rate card, and by a submit. */
async function rates(account: Account): Promise<bigint[]> {
  const { accountId } = account;
  const quoted = await estimate(db.sql, account.submission(), false);
  const card = await readPricing(db.sql, accountId);
  const { jobId } = await db.submitter()(account.submission());
  const [job] = await db.sql<{ rate_micros: bigint }[]>`select rate_micros from jobs where id = ${jobId}`;
  const shown = card.capabilities.find(({ capability }) => capability === 'face-swap-image')?.rates[0]
    ?.rateMicros;
  return [quoted.rateMicros, shown ?? -1n, job?.rate_micros ?? -1n];
}

const own = (accountId: string, rateMicros: bigint) =>
  flatRate({ capability: 'face-swap-image', accountId, rateMicros, minimumMicros: 0n });
const all = (rate: bigint) => [rate, rate, rate];

test('an account whose own rates are reset pays the public ones, also when those change, until it has own ones again', async () => {
  const account = await db.account();
  const { accountId } = account;
  const reset = () => resetRates(db.sql, { accountId, capability: 'face-swap-image' });
  await expect(reset()).rejects.toMatchObject({ code: 'not_found' });
  await setRates(db.sql, own(accountId, 7n));
  expect(await rates(account)).toEqual(all(7n));
  await reset();
  expect(await rates(account)).toEqual(all(40_000n));
  await expect(reset()).rejects.toMatchObject({ code: 'not_found' });
  await setRates(db.sql, flatRate({ capability: 'face-swap-image', rateMicros: 9n, minimumMicros: 0n }));
  expect(await rates(account)).toEqual(all(9n));
  await setRates(db.sql, own(accountId, 8n));
  expect(await rates(account)).toEqual(all(8n));
});

test('rates to come count from their moment on, once, however many processes start them', async () => {
  const account = await db.account();
  const { accountId } = account;
  await setRates(db.sql, own(accountId, 20n));
  const startsAt = new Date(Date.now() + 3_600_000).toISOString();
  const { comingId } = await setRates(db.sql, { ...own(accountId, 30n), startsAt });
  expect(comingId).toBeDefined();
  await db.sql`select start_rates()`;
  expect(await rates(account)).toEqual(all(20n));
  await db.sql`update rates_to_come set starts_at = now() where id = ${comingId ?? 0n}`;
  const started = await Promise.all(Array.from({ length: 5 }, () => db.sql`select start_rates()`));
  expect(started.flat()).toHaveLength(1);
  expect(await rates(account)).toEqual(all(30n));
});

test('of several whose moments have come, the latest counts', async () => {
  const account = await db.account();
  const startsAt = new Date(Date.now() + 3_600_000).toISOString();
  for (const [rate, moment] of [
    [3n, '2 hours'],
    [1n, '4 hours'],
    [2n, '3 hours'],
  ] as const) {
    const { comingId } = await setRates(db.sql, { ...own(account.accountId, rate), startsAt });
    await db.sql`
      update rates_to_come set starts_at = now() - interval '5 hours' + ${moment}::interval where id = ${comingId ?? 0n}`;
  }
  await db.sql`select start_rates()`;
  expect(await rates(account)).toEqual(all(1n));
});
