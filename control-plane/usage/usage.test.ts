import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readUsage, summarizeUsage } from './usage.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
  await db.sql`update settings set jobs_in_flight = 100000, jobs_in_flight_per_account = 100000`;
});
afterAll(() => db.close());

const micros = (iso: string) => BigInt(Date.parse(iso)) * 1000n;
const all = undefined;

type Ending = 'succeeded' | 'render_failed' | 'timed_out' | 'cancelled' | undefined;

/** Submits a job dated `at` and ends it in this way. */
async function job(account: Awaited<ReturnType<TestDatabase['account']>>, ending: Ending, at?: string) {
  const { jobId } = await db.submitter()(account.submission());
  if (at !== undefined) await db.sql`update jobs set created_at = ${at} where id = ${jobId}`;
  if (ending === 'succeeded')
    await db.sql`select * from settle_job(${jobId}, null, ${db.sql.json(output())}::jsonb, null, null, null, null)`;
  else if (ending !== undefined)
    await db.sql`select * from settle_job(${jobId}, null, null, 'processing_failed', 'failed', ${ending}, null)`;
  return jobId;
}

test('entries tell what became of each call, the newest first, those of others left out', async () => {
  const [account, other] = [await db.account(), await db.account()];
  await job(other, 'succeeded');
  const ids: string[] = [];
  for (const ending of ['succeeded', 'render_failed', 'timed_out', 'cancelled', undefined] as const)
    ids.unshift(await job(account, ending));
  await db.sql`select begin_job(${ids[0] as string}, 'uid')`;
  const entries = await readUsage(db.sql, account.accountId, all, 100);
  expect(entries.map(({ id }) => id)).toEqual(ids);
  expect(entries.map(({ status, chargedMicros, reason }) => [status, chargedMicros, reason])).toEqual([
    ['processing', 0n, undefined],
    ['failed', 0n, 'cancelled'],
    ['failed', 0n, 'timed_out'],
    ['failed', 0n, 'render_failed'],
    ['succeeded', 40_000n, undefined],
  ]);
  for (const { capability, createdAt } of entries) {
    expect(capability).toBe('face-swap-image');
    expect(createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  }
});

test('a range takes in its beginning and leaves out its end, to the microsecond', async () => {
  const account = await db.account();
  const moments = ['00:00:00Z', '12:00:00.000001Z', '12:00:00.000002Z', '23:59:59.999999Z'];
  for (const moment of moments) await job(account, 'succeeded', `2026-03-01T${moment}`);
  const read = async (from?: bigint, to?: bigint) => {
    const range = { fromMicros: from, toMicros: to };
    const entries = await readUsage(db.sql, account.accountId, range, 500);
    const { succeeded } = await summarizeUsage(db.sql, account.accountId, range);
    expect(Number(succeeded)).toBe(entries.length);
    return entries.length;
  };
  const noon = micros('2026-03-01T12:00:00Z');
  const [day, next] = [micros('2026-03-01'), micros('2026-03-02')];
  expect(await read(day, next)).toBe(4);
  expect(await read(day, next - 1n)).toBe(3);
  expect(await read(day + 1n, next)).toBe(3);
  expect(await read(noon + 1n, noon + 2n)).toBe(1);
  expect(await read(noon + 1n, noon + 1n)).toBe(0);
  expect(await read(noon, undefined)).toBe(3);
  expect(await read(undefined, noon + 2n)).toBe(2);
  expect(await read(-(2n ** 62n), 2n ** 62n)).toBe(4);
  expect(await read(2n ** 62n, undefined)).toBe(0);
  await expect(read(next, day)).rejects.toMatchObject({ code: 'invalid_input' });
});

test('pages follow each other by the moment of the last entry, also of calls that were admitted together', async () => {
  const account = await db.account(100);
  const submit = db.submitter();
  await Promise.all(Array.from({ length: 90 }, () => submit(account.submission())));
  const whole = await readUsage(db.sql, account.accountId, all, 500);
  expect(new Set(whole.map(({ createdAt }) => createdAt)).size).toBe(90);
  const paged: string[] = [];
  for (let toMicros: bigint | undefined; ; ) {
    const page = await readUsage(db.sql, account.accountId, { toMicros }, 7);
    if (page.length === 0) break;
    paged.push(...page.map(({ id }) => id));
    const last = page.at(-1)?.createdAt ?? '';
    toMicros = micros(`${last.slice(0, 19)}Z`) + BigInt(last.slice(20, 26));
  }
  expect(paged).toEqual(whole.map(({ id }) => id));
});

test.each([0, -1, 501, 1.5, Number.NaN])('a limit of %d is invalid_input', async (limit) => {
  await expect(readUsage(db.sql, 'acct-any', all, limit)).rejects.toMatchObject({ code: 'invalid_input' });
});

test('sums of any range are the sums of its entries, wherever its ends lie in their hours', async () => {
  const account = await db.account(100);
  const endings: Ending[] = ['succeeded', 'render_failed', undefined];
  for (let i = 0; i < 60; i++)
    await job(
      account,
      endings[i % 3],
      new Date(Date.parse('2026-03-01T00:00:00Z') + i * 400_000).toISOString(),
    );
  const entries = await readUsage(db.sql, account.accountId, all, 500);
  const at = (text: string) => micros(`${text.slice(0, 23)}Z`);
  for (let i = 0; i < 200; i++) {
    const pick = () =>
      micros('2026-03-01') + BigInt(Math.floor(Math.random() * 9 * 12) * 300_000_000 - 3_600_000_000);
    const [a, b] = [pick(), pick()];
    const range = { fromMicros: a < b ? a : b, toMicros: a < b ? b : a };
    const inside = entries.filter(
      ({ createdAt }) => at(createdAt) >= range.fromMicros && at(createdAt) < range.toMicros,
    );
    const count = (...statuses: string[]) =>
      BigInt(inside.filter(({ status }) => statuses.includes(status)).length);
    const spentMicros = inside.reduce((sum, { chargedMicros }) => sum + chargedMicros, 0n);
    const calls = BigInt(inside.length);
    expect(await summarizeUsage(db.sql, account.accountId, range)).toEqual({
      succeeded: count('succeeded'),
      failed: count('failed'),
      inFlight: count('queued', 'processing'),
      spentMicros,
      features: calls > 0n ? [{ feature: 'photo_swap', calls, spentMicros }] : [],
    });
  }
  expect(await db.faults(account.accountId)).toEqual([]);
});

test('at every moment all calls are counted, each once, while they are made and end', async () => {
  const account = await db.account(100);
  const submit = db.submitter();
  let made = 0;
  let answered = 0;
  let running = true;
  const work = async () => {
    for (let i = 0; i < 40; i++) {
      made++;
      const { jobId } = await submit(account.submission());
      answered++;
      await db.sql`select begin_job(${jobId}, 'uid')`;
      await db.sql`select * from settle_job(${jobId}, null, ${i % 2 ? db.sql.json(output()) : null}::jsonb,
        ${i % 2 ? null : 'processing_failed'}, ${i % 2 ? null : 'failed'}, ${i % 2 ? null : 'render_failed'}, null)`;
    }
  };
  let looks = 0;
  const look = async () => {
    while (running) {
      const least = answered;
      const { succeeded, failed, inFlight, spentMicros } = await summarizeUsage(
        db.database.fast,
        account.accountId,
        all,
      );
      const total = Number(succeeded + failed + inFlight);
      expect(total).toBeGreaterThanOrEqual(least);
      expect(total).toBeLessThanOrEqual(made);
      expect(spentMicros).toBe(succeeded * 40_000n);
      looks++;
    }
  };
  const looking = look();
  await Promise.all([work(), work(), work(), work()]).finally(() => {
    running = false;
  });
  await looking;
  expect(looks).toBeGreaterThan(5);
  expect(await summarizeUsage(db.sql, account.accountId, all)).toMatchObject({
    succeeded: 80n,
    failed: 80n,
    inFlight: 0n,
  });
  expect(await db.faults(account.accountId)).toEqual([]);
});

test('neither the list nor the sums look at calls outside the range, nor at every call inside it', async () => {
  const { accountId } = await db.account();
  const plan = async (statement: TemplateStringsArray, ...values: unknown[]) =>
    JSON.stringify(await db.sql(statement, ...values));
  await db.sql`analyze jobs`;
  const list = await plan`explain (format json) select id, created_at from usage_entries
    where account_id = ${accountId} and created_at >= ${'2026-01-01'}::timestamptz and created_at < ${'infinity'}::timestamptz
    order by created_at desc, id desc limit ${100}`;
  expect(list).toContain('jobs_by_account');
  expect(list).toContain('Backward');
  expect(list).not.toContain('"Sort"');
});
