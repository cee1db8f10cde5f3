import { flatRate } from '@semblance/testkit/control-plane/rates';
import { reserveSession, type SessionRig, sessionRig, told } from '@semblance/testkit/control-plane/sessions';
import { output } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { setRates, switchCapability } from '../billing/rate-card.ts';

let db: SessionRig['db'];
let report: SessionRig['report'];
let streaming: SessionRig['streaming'];
let rowOf: SessionRig['rowOf'];
let moneyOf: SessionRig['moneyOf'];
beforeAll(async () => {
  ({ db, report, streaming, rowOf, moneyOf } = await sessionRig());
});
afterAll(() => db.close());

test('a balance that covers a part of the minutes opens for that part, to the second', async () => {
  const rate = async (accountId: string, rateMicros: bigint) =>
    setRates(db.sql, flatRate({ capability: 'voice', accountId, rateMicros, minimumMicros: 0n }));
  const granted = async (usd: number, rateMicros: bigint, minutes = 1) => {
    const { accountId } = await db.account(usd);
    await rate(accountId, rateMicros);
    const { outcome, max_seconds, max_cost_micros } = await reserveSession(db.sql, accountId, { minutes });
    expect(await db.faults(accountId)).toEqual([]);
    return [outcome, max_seconds, max_cost_micros];
  };
  expect(await granted(0.06, 60_000n)).toEqual(['reserved', 60, 60_000n]);
  expect(await granted(0.059999, 60_000n)).toEqual(['reserved', 59, 59_000n]);
  expect(await granted(0.005, 60_000n)).toEqual(['reserved', 5, 5_000n]);
  expect(await granted(0.004999, 60_000n)).toEqual(['insufficient_balance', null, 5_000n]);
  expect(await granted(0, 60_000n)).toEqual(['insufficient_balance', null, 5_000n]);
  // Rounded half up: at 7 micro-dollars a minute 47 s are 5.48, 48 s are 5.6.
  expect(await granted(0.000005, 7n)).toEqual(['reserved', 47, 5n]);
  // A free session needs no balance and reserves nothing.
  expect(await granted(0, 0n, 120)).toEqual(['reserved', 7_200, 0n]);
  // The highest possible price.
  expect(await granted(9_000_000, 10_000_000_000n, 120)).toEqual(['reserved', 7_200, 1_200_000_000_000n]);
});

test('what is held for jobs and set aside for sessions is not granted again, however many ask at once', async () => {
  const account = await db.account(0.1);
  const { accountId } = account;
  await db.submitter()(account.submission());
  const opened = await Promise.all(
    Array.from({ length: 12 }, () => reserveSession(db.sql, accountId, { minutes: 1 })),
  );
  // The hold leaves 40,000 micro-dollars: one session of 40 s.
  expect(opened.map(({ max_seconds }) => max_seconds).filter((seconds) => seconds !== null)).toEqual([40]);
  expect(new Set(opened.map(({ outcome }) => outcome))).toEqual(
    new Set(['reserved', 'insufficient_balance']),
  );
  await expect(db.submitter()(account.submission())).rejects.toMatchObject({ code: 'insufficient_balance' });
  expect(await db.faults(accountId)).toEqual([]);
});

test('the rate of the opening holds, own rates first, whatever becomes of them', async () => {
  const { accountId } = await db.account(10);
  await setRates(
    db.sql,
    flatRate({ capability: 'voice', accountId, rateMicros: 120_000n, minimumMicros: 5_000_000n }),
  );
  const id = await streaming(accountId);
  await setRates(db.sql, flatRate({ capability: 'voice', accountId, rateMicros: 1n, minimumMicros: 0n }));
  await report([told(id, 30_001, { ended: true })]);
  // Sessions have no minimum: 30.001 s at 0.12 USD a minute.
  expect(await rowOf(id)).toMatchObject({ charged_micros: 60_002n });
  expect(await db.faults(accountId)).toEqual([]);
});

test('a shortfall of a job may leave less than a session has set aside; the session is charged all the same', async () => {
  const account = await db.account(0.1);
  const { accountId } = account;
  const { jobId } = await db.submitter()(account.submission());
  const id = await streaming(accountId);
  await db.sql`select settle_job(${jobId}, null, ${db.sql.json(output(4_000))}::jsonb, null, null, null, null)`;
  await report([told(id, 40_000, { ended: true })]);
  expect(await moneyOf(accountId)).toEqual({ available: -100_000n, reserved: 0n, spent: 200_000n });
  expect(await reserveSession(db.sql, accountId)).toMatchObject({ outcome: 'insufficient_balance' });
  expect(await db.faults(accountId)).toEqual([]);
});

test('ceilings: of the account exactly, of the platform, and what ended counts no more', async () => {
  const { accountId } = await db.account(10);
  await db.sql`update accounts set live_sessions_limit = 3 where id = ${accountId}`;
  const opened = await Promise.all(Array.from({ length: 10 }, () => reserveSession(db.sql, accountId)));
  const got = opened.filter(({ outcome }) => outcome === 'reserved');
  expect(got).toHaveLength(3);
  expect(opened.filter(({ outcome, detail }) => outcome === 'account_full' && detail === '3')).toHaveLength(
    7,
  );
  await db.sql`select refuse_sessions(array[${got[0]?.id ?? ''}])`;
  expect(await reserveSession(db.sql, accountId)).toMatchObject({ outcome: 'reserved' });

  const [open] = await db.sql<
    { n: number }[]
  >`select count(*)::int as n from sessions where ended_at is null`;
  await db.sql`update settings set live_sessions = ${(open?.n ?? 0) + 5}`;
  const others = await Promise.all(Array.from({ length: 8 }, () => db.account(1)));
  const more = await Promise.all(others.map((other) => reserveSession(db.sql, other.accountId)));
  expect(more.filter(({ outcome }) => outcome === 'reserved')).toHaveLength(5);
  expect(more.filter(({ outcome }) => outcome === 'platform_full')).toHaveLength(3);
  await db.sql`update settings set live_sessions = 1000`;
});

test('a capability that is switched off opens nothing; what is open goes on and is paid', async () => {
  const { accountId } = await db.account(10);
  const id = await streaming(accountId);
  await switchCapability(db.sql, 'voice', false);
  expect(await reserveSession(db.sql, accountId)).toMatchObject({ outcome: 'capability_unavailable' });
  expect(await report([told(id, 500)])).toEqual([{ over: false, reason: undefined }]);
  await report([told(id, 600, { ended: true })]);
  expect(await rowOf(id)).toMatchObject({ status: 'succeeded', charged_micros: 600n });
  await switchCapability(db.sql, 'voice', true);
});
