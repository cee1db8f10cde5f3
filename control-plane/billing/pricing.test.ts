import { CAPABILITIES, CAPABILITY_NAMES } from '@semblance/engine-api/capabilities';
import { flatRate } from '@semblance/testkit/control-plane/rates';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readPricing } from './pricing.ts';
import { setRates } from './rate-card.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());

test('the public rate card prices all capabilities, in their own units; only Photo Swap has an engine', async () => {
  const card = await readPricing(db.sql);
  expect(card).toMatchObject({ currency: 'USD', version: 8n, effectiveAt: expect.stringMatching(/Z$/) });
  expect(card.capabilities.map(({ capability }) => capability)).toEqual(CAPABILITY_NAMES);
  for (const price of card.capabilities) {
    const facts = CAPABILITIES[price.capability as keyof typeof CAPABILITIES];
    expect(price).toMatchObject({
      feature: facts.feature,
      unit: facts.unit,
      enabled: price.capability === 'face-swap-image',
    });
    expect(price.rates.at(-1)?.when).toEqual({});
    if (facts.shape === 'session') expect(price.minimumMicros).toBe(0n);
  }
  expect(card.capabilities.find(({ capability }) => capability === 'face-swap-image')).toMatchObject({
    rates: [{ when: {}, rateMicros: 40_000n }],
    minimumMicros: 40_000n,
    hold: { units: 1.5 },
  });
});

const set = (account: string | null, rate: number, at = new Date()) => db.sql`
  insert into rates (capability, account_id, unit, rates, minimum_micros, hold_milli_units, effective_at)
  values ('face-swap-image', ${account}, 'image', ${db.sql.json([{ when: {}, rate_micros: rate }])}, 0, 1000, ${at})`;

test('an account’s own rates come before the public ones, a newer version before an older, whatever the clock says', async () => {
  const { accountId } = await db.account();
  const other = await db.account();
  const rate = async (account?: string) => {
    const card = await readPricing(db.sql, account);
    return card.capabilities.find(({ capability }) => capability === 'face-swap-image')?.rates[0]?.rateMicros;
  };
  await set(accountId, 10_000);
  await set(null, 50_000);
  expect([await rate(accountId), await rate(other.accountId), await rate()]).toEqual([
    10_000n,
    50_000n,
    50_000n,
  ]);
  // Set with immediate effect, by a clock that has been set back since.
  await set(null, 70_000, new Date(Date.now() + 3_600_000));
  expect([await rate(accountId), await rate(other.accountId), await rate()]).toEqual([
    10_000n,
    70_000n,
    70_000n,
  ]);
  const { jobId } = await db.submitter()((await db.account()).submission());
  const [job] = await db.sql`select rate_micros, hold_micros from jobs where id = ${jobId}`;
  expect(job).toEqual({ rate_micros: 70_000n, hold_micros: 70_000n });
});

test('installed while its clock was ahead, an installation sells by its rates all the same', async () => {
  const fresh = await testDatabase();
  try {
    await fresh.sql`alter table rates disable trigger rates_no_change`;
    await fresh.sql`update rates set effective_at = now() + interval '1 hour'`;
    await fresh.sql`alter table rates enable trigger rates_no_change`;
    expect(await readPricing(fresh.sql)).toMatchObject({ version: 8n });
    const { accountId, submission } = await fresh.account();
    await fresh.submitter()(submission());
    const quotes = await fresh.sql`
      select (quote_job(${accountId}, 'face-swap-image', '[]', '{}')).rate_micros`;
    expect([...quotes]).toEqual([{ rate_micros: 40_000n }]);
    const { version } = await setRates(
      fresh.sql,
      flatRate({
        capability: 'face-swap-image',
        accountId: undefined,
        rateMicros: 1n,
        minimumMicros: 1n,
      }),
    );
    expect(await readPricing(fresh.sql)).toMatchObject({ version });
    await fresh.submitter()(submission());
  } finally {
    await fresh.close();
  }
});
