import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SessionReport } from '#proto/semblance/control/v1/control.ts';
import { readBalance } from '../billing/balance.ts';
import { setRates, switchCapability } from '../billing/rate-card.ts';
import { output, type TestDatabase, testDatabase } from '../storage/testing.ts';
import { readUsage, summarizeUsage } from '../usage/usage.ts';
import { connectSession } from './connect.ts';
import { createExpiry } from './expiry.ts';
import { sha256 } from './order.ts';
import { createReports, type EndedFacts } from './reports.ts';
import { holdSlot, offerSessions, openSession, reserveSession } from './testing.ts';

let db: TestDatabase;
const ended: EndedFacts[] = [];
let report: ReturnType<typeof createReports>;
beforeAll(async () => {
  db = await testDatabase();
  report = createReports({ database: db.database, onEnded: (facts) => ended.push(facts) });
  await offerSessions(db.sql);
  await db.sql`update settings set live_sessions = 1000`;
});
afterAll(() => db.close());

const connect = (id: string, connectionId = 'one') =>
  connectSession(db.database, { sessionId: id, tokenSha256: sha256(id), connectionId });

/** A session that streams. */
async function streaming(accountId: string, opening: Parameters<typeof openSession>[2] = {}) {
  const id = await openSession(db.sql, accountId, opening);
  await connect(id);
  return id;
}

const told = (id: string, streamedMs: number, more: Partial<SessionReport> = {}) => ({
  sessionId: id,
  connectionId: 'one',
  streamedMs: BigInt(streamedMs),
  ended: false,
  reason: undefined,
  ...more,
});

async function rowOf(id: string) {
  const [row] = await db.sql`
    select state, status, reason, streamed_ms, charged_micros, ticket is null as forgotten from sessions where id = ${id}`;
  return row;
}

async function moneyOf(accountId: string) {
  const [row] = await db.sql<{ available: bigint; reserved: bigint; spent: bigint }[]>`
    select available_micros as available, reserved_micros as reserved, spent_micros as spent
    from account_balances where account_id = ${accountId}`;
  return row;
}

test('nothing is debited at open; the seconds streamed are charged at the end, and the block is given free', async () => {
  const { accountId } = await db.account(1);
  const before = await readBalance(db.sql, accountId);
  const id = await streaming(accountId, { minutes: 10 });
  expect(await readBalance(db.sql, accountId)).toEqual(before);
  expect(await moneyOf(accountId)).toEqual({ available: 1_000_000n, reserved: 600_000n, spent: 0n });
  expect(await report([told(id, 2_000)])).toEqual([{ over: false, reason: undefined }]);
  expect(await moneyOf(accountId)).toMatchObject({ spent: 0n });
  expect(await report([told(id, 12_345, { ended: true })])).toEqual([{ over: true, reason: undefined }]);
  // 0.06 USD a minute: 12.345 s are 12,345 micro-dollars.
  expect(await moneyOf(accountId)).toEqual({ available: 987_655n, reserved: 0n, spent: 12_345n });
  expect(await rowOf(id)).toMatchObject({
    state: 'ended',
    status: 'succeeded',
    reason: null,
    forgotten: true,
  });
  expect(ended.at(-1)).toEqual({
    ...{ sessionId: id, capability: 'voice', status: 'succeeded', reason: undefined },
    ...{ streamedMs: 12_345n, chargedMicros: 12_345n },
  });
  expect(await db.faults(accountId)).toEqual([]);
});

test('a balance that covers a part of the minutes opens for that part, to the second', async () => {
  const rate = async (accountId: string, rateMicros: bigint) =>
    setRates(db.sql, { capability: 'voice', accountId, rateMicros, minimumMicros: 0n });
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
  // What is free needs no balance, and sets nothing aside.
  expect(await granted(0, 0n, 120)).toEqual(['reserved', 7_200, 0n]);
  // As dear as it gets.
  expect(await granted(9_000_000, 10_000_000_000n, 120)).toEqual(['reserved', 7_200, 1_200_000_000_000n]);
});

test('what is held for jobs and set aside for sessions is not granted again, however many ask at once', async () => {
  const account = await db.account(0.1);
  const { accountId } = account;
  await db.submitter()(account.submission());
  const opened = await Promise.all(
    Array.from({ length: 12 }, () => reserveSession(db.sql, accountId, { minutes: 1 })),
  );
  // 40,000 micro-dollars are left by the hold: one session of 40 s.
  expect(opened.map(({ max_seconds }) => max_seconds).filter((seconds) => seconds !== null)).toEqual([40]);
  expect(new Set(opened.map(({ outcome }) => outcome))).toEqual(
    new Set(['reserved', 'insufficient_balance']),
  );
  await expect(db.submitter()(account.submission())).rejects.toMatchObject({ code: 'insufficient_balance' });
  expect(await db.faults(accountId)).toEqual([]);
});

test('the rate of the opening holds, own rates first, whatever becomes of them', async () => {
  const { accountId } = await db.account(10);
  await setRates(db.sql, { capability: 'voice', accountId, rateMicros: 120_000n, minimumMicros: 5_000_000n });
  const id = await streaming(accountId);
  await setRates(db.sql, { capability: 'voice', accountId, rateMicros: 1n, minimumMicros: 0n });
  await report([told(id, 30_001, { ended: true })]);
  // No minimum on sessions: 30.001 s at 0.12 USD a minute.
  expect(await rowOf(id)).toMatchObject({ charged_micros: 60_002n });
  expect(await db.faults(accountId)).toEqual([]);
});

test('reports that come twice, late, out of order or beyond the ceiling', async () => {
  const { accountId } = await db.account(10);
  const id = await streaming(accountId);
  await report([told(id, 4_000)]);
  await report([told(id, 2_000), told(id, 6_000), told(id, 5_000), told(id, -7)]);
  expect(await rowOf(id)).toMatchObject({ streamed_ms: 6_000n });
  await report([told(id, 60_001)]);
  expect(await rowOf(id)).toMatchObject({ streamed_ms: 60_000n, charged_micros: null });
  const last = told(id, 60_040, { ended: true, reason: 'session_limit_reached' });
  const over = { over: true, reason: 'session_limit_reached' };
  expect(await report([last, last])).toEqual([over, over]);
  expect(await report([told(id, 70_000), { ...last, reason: 'cancelled' }])).toEqual([over, over]);
  expect(await rowOf(id)).toMatchObject({
    ...{ status: 'succeeded', reason: 'session_limit_reached' },
    ...{ streamed_ms: 60_000n, charged_micros: 60_000n },
  });
  expect(ended.filter(({ sessionId }) => sessionId === id)).toHaveLength(1);
  expect(await db.faults(accountId)).toEqual([]);
});

test('a report of a connection that the session does not have, or of no session, changes nothing', async () => {
  const { accountId } = await db.account(10);
  const id = await streaming(accountId);
  const waiting = await openSession(db.sql, accountId);
  const over = { over: true, reason: undefined };
  const verdicts = await report([
    told(id, 9_000, { connectionId: 'two', ended: true }),
    told(waiting, 9_000, { ended: true }),
    told('ses-00000000000000000000000000', 1),
    told("ses-'; drop table sessions; --", 1),
    told(id, 9_000, { connectionId: 'a\0b' }),
    told(id, 1_000, { reason: 'no such reason' }),
  ]);
  expect(verdicts).toEqual([over, over, over, over, over, { over: false, reason: undefined }]);
  expect(await rowOf(id)).toMatchObject({ state: 'connected', streamed_ms: 1_000n });
  expect(await rowOf(waiting)).toMatchObject({ state: 'open', streamed_ms: 0n });
  await report([told(id, 1_000, { ended: true, reason: 'no such reason' })]);
  expect(await rowOf(id)).toMatchObject({ status: 'succeeded', reason: null });
});

test('what never streamed failed, costs nothing, and says why', async () => {
  const { accountId } = await db.account(10);
  const because = async (reason: string | undefined) => {
    const id = await streaming(accountId);
    await report([told(id, 0, { ended: true, reason })]);
    return rowOf(id);
  };
  for (const [reason, shown] of [
    [undefined, 'no_stream'],
    ['timed_out', 'no_stream'],
    ['render_failed', 'render_failed'],
    ['cancelled', 'cancelled'],
  ] as const)
    expect(await because(reason)).toMatchObject({ status: 'failed', reason: shown, charged_micros: 0n });
  expect(await moneyOf(accountId)).toEqual({ available: 10_000_000n, reserved: 0n, spent: 0n });
  // A reason is no failure: what was streamed before is paid.
  const id = await streaming(accountId);
  await report([told(id, 1_000, { ended: true, reason: 'render_failed' })]);
  expect(await rowOf(id)).toMatchObject({
    status: 'succeeded',
    reason: 'render_failed',
    charged_micros: 1_000n,
  });
  expect(await db.faults(accountId)).toEqual([]);
});

test('of many connections at once one is admitted, and it alone may ask again', async () => {
  const { accountId } = await db.account(10);
  const id = await openSession(db.sql, accountId);
  const asked = await Promise.allSettled(
    Array.from({ length: 20 }, (_, i) => connect(id, `connection ${i}`)),
  );
  const admitted = asked.findIndex(({ status }) => status === 'fulfilled');
  expect(asked.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  for (const each of asked)
    if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'not_found' });
  expect(await connect(id, `connection ${admitted}`)).toMatchObject({
    ...{ capability: 'voice', accountId, maxDurationSeconds: 60, agentAddress: '127.0.0.1:9' },
    ...{ agentIncarnation: 'one', reportIntervalMs: 2_000, reportTimeoutMs: 15_000 },
  });
  await report([told(id, 5, { connectionId: `connection ${admitted}`, ended: true })]);
  await expect(connect(id, `connection ${admitted}`)).rejects.toMatchObject({ code: 'not_found' });
});

test('a connection needs the token, in time', async () => {
  const { accountId } = await db.account(10);
  const id = await openSession(db.sql, accountId);
  const ask = (sessionId: string, token: Buffer, connectionId = 'one') =>
    connectSession(db.database, { sessionId, tokenSha256: token, connectionId });
  for (const [sessionId, token] of [
    [id, sha256('another')],
    [id, Buffer.alloc(32)],
    [id, Buffer.alloc(0)],
    [id, Buffer.alloc(33)],
    ['ses-00000000000000000000000000', sha256(id)],
    ['ses-00000000000000000000000000', Buffer.alloc(32)],
    ["' or true --", sha256(id)],
  ] as const)
    await expect(ask(sessionId, token)).rejects.toMatchObject({ code: 'unauthorized' });
  await expect(ask(id, sha256(id), '')).rejects.toMatchObject({ code: 'invalid_input' });
  expect(await rowOf(id)).toMatchObject({ state: 'open' });
  const { id: opening } = await reserveSession(db.sql, accountId);
  await expect(connect(opening)).rejects.toMatchObject({ code: 'not_found' });
  await db.sql`update sessions set connect_by = now() where id = ${id}`;
  await expect(connect(id)).rejects.toMatchObject({ code: 'not_found' });
});

test('what nobody ends ends by itself: a hanging opening, no connection, no reports', async () => {
  const { accountId } = await db.account(10);
  const [hangs, waits, silent] = await Promise.all([
    reserveSession(db.sql, accountId).then(({ id }) => id),
    openSession(db.sql, accountId),
    streaming(accountId),
  ]);
  await report([told(silent, 3_000)]);
  const expire = async (heard: number) =>
    (await db.sql<{ session: string }[]>`select session from expire_sessions(${heard}, null)`).map(
      ({ session }) => session,
    );
  const mine = [hangs, waits, silent];
  expect((await expire(3_600)).filter((id) => mine.includes(id))).toEqual([]);
  await db.sql`update sessions set asked_at = now() - interval '31 seconds' where id = ${hangs}`;
  await db.sql`update sessions set connect_by = now() - interval '1 second' where id = ${waits}`;
  await db.sql`update sessions set reported_at = now() - interval '16 seconds' where id = ${silent}`;
  // Who has not heard for so long cannot tell silence from having been away.
  expect((await expire(14.9)).filter((id) => mine.includes(id)).sort()).toEqual([hangs, waits].sort());
  expect((await expire(15)).filter((id) => mine.includes(id))).toEqual([silent]);
  expect(await expire(3_600)).toEqual([]);
  expect(await rowOf(hangs)).toMatchObject({ state: 'refused', charged_micros: 0n });
  expect(await rowOf(waits)).toMatchObject({ status: 'failed', reason: 'no_stream', charged_micros: 0n });
  expect(await rowOf(silent)).toMatchObject({
    status: 'succeeded',
    reason: 'timed_out',
    charged_micros: 3_000n,
  });
  // The opening comes to its slot too late, the gateway to its report.
  expect(await holdSlot(db.sql, hangs)).toBe(false);
  expect(await report([told(silent, 9_000)])).toEqual([{ over: true, reason: 'timed_out' }]);
  expect(await moneyOf(accountId)).toEqual({ available: 9_997_000n, reserved: 0n, spent: 3_000n });
  expect(await db.faults(accountId)).toEqual([]);
});

test('the silence of gateways counts from when they could be heard', async () => {
  const { accountId } = await db.account(10);
  const id = await streaming(accountId);
  await db.sql`update sessions set reported_at = now() - interval '1 hour' where id = ${id}`;
  const { look } = createExpiry({ database: db.database, logger: { warn() {}, info() {} } as never });
  await look();
  await look();
  expect(await rowOf(id)).toMatchObject({ state: 'connected' });
  await report([told(id, 100, { ended: true })]);
});

test('an end that a report, a sweep and a deletion bring at the same moment is one end', async () => {
  const { accountId } = await db.account(10);
  const ids = await Promise.all(Array.from({ length: 10 }, () => streaming(accountId)));
  await report(ids.map((id) => told(id, 1_000)));
  await db.sql`update sessions set reported_at = now() - interval '1 hour' where id = any(${ids}::text[])`;
  const seen = ended.length;
  await Promise.all([
    ...ids.map((id) => report([told(id, 2_000, { ended: true, reason: 'session_limit_reached' })])),
    ...ids.map((id) => db.sql`select settle_session(${id}, 'cancelled', null)`),
    ...ids.map((id) => report([told(id, 3_000)])),
    ...Array.from({ length: 5 }, () => db.sql`select * from expire_sessions(3600, null)`),
    report([...ids].reverse().map((id) => told(id, 2_000, { ended: true }))),
  ]);
  const rows = await db.sql<{ streamed_ms: bigint; charged_micros: bigint; transfers: number }[]>`
    select s.streamed_ms, s.charged_micros, (select count(*)::int from ledger_transfers t where t.session_id = s.id) as transfers
    from sessions s where s.id = any(${ids}::text[])`;
  for (const { streamed_ms, charged_micros, transfers } of rows) {
    expect(transfers).toBe(1);
    // At 0.06 USD a minute a millisecond is a micro-dollar.
    expect(charged_micros).toBe(streamed_ms);
    expect([1_000n, 2_000n, 3_000n]).toContain(streamed_ms);
  }
  expect(ended.length - seen).toBeLessThanOrEqual(10);
  expect(await moneyOf(accountId)).toMatchObject({ reserved: 0n });
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

test('usage tells of sessions as of jobs, and its sums agree across hours and midnight', async () => {
  const account = await db.account(100);
  const { accountId } = account;
  const at = async (moment: string, streamedMs: number) => {
    const id = await streaming(accountId, { capability: streamedMs % 2 ? 'voice' : 'full-live-swap' });
    await db.sql`update sessions set created_at = ${moment} where id = ${id}`;
    await report([told(id, streamedMs, { ended: true })]);
    return id;
  };
  const moments = ['2026-02-28T22:59:59.999999Z', '2026-02-28T23:00:00Z', '2026-02-28T23:59:59.999999Z'];
  moments.push('2026-03-01T00:00:00Z', '2026-03-01T00:00:00.000001Z');
  const ids: string[] = [];
  for (const [i, moment] of moments.entries()) ids.unshift(await at(moment, i * 1_001));
  const { jobId } = await db.submitter()(account.submission());
  await db.sql`update jobs set created_at = '2026-02-28T23:30:00Z' where id = ${jobId}`;
  await db.sql`select settle_job(${jobId}, null, ${db.sql.json(output())}::jsonb, null, null, null, null)`;
  const open = await openSession(db.sql, accountId);
  const running = await streaming(accountId);
  // Neither an opening nor one that was refused is a call that was made.
  await reserveSession(db.sql, accountId);
  await db.sql`select refuse_sessions(array[${(await reserveSession(db.sql, accountId)).id}])`;

  const entries = await readUsage(db.sql, accountId, undefined, 100);
  expect(entries.map(({ id }) => id)).toEqual([running, open, ...ids.slice(0, 3), jobId, ...ids.slice(3)]);
  expect(entries.slice(0, 3).map(({ status, reason }) => [status, reason])).toEqual([
    ['processing', undefined],
    ['queued', undefined],
    ['succeeded', undefined],
  ]);
  expect(entries.at(-1)).toMatchObject({ status: 'failed', reason: 'no_stream', chargedMicros: 0n });

  const micros = (iso: string) => BigInt(Date.parse(iso)) * 1000n;
  const ends = [
    '2026-02-28T22:59:59.999Z',
    '2026-02-28T23:00:00Z',
    '2026-02-28T23:15:00Z',
    '2026-03-01T00:00:00Z',
  ];
  const bounds = [undefined, ...ends.map(micros), micros('2026-03-01T01:00:00Z'), undefined];
  for (const [i, from] of bounds.entries()) {
    for (const to of bounds.slice(i + 1)) {
      const range = { fromMicros: from, toMicros: to };
      const listed = await readUsage(db.sql, accountId, range, 500);
      const sum = await summarizeUsage(db.sql, accountId, range);
      const count = (...of: string[]) => BigInt(listed.filter(({ status }) => of.includes(status)).length);
      expect([sum.succeeded, sum.failed, sum.inFlight], `${from} to ${to}`).toEqual([
        ...[count('succeeded'), count('failed'), count('queued', 'processing')],
      ]);
      expect(sum.spentMicros).toBe(listed.reduce((total, entry) => total + entry.chargedMicros, 0n));
    }
  }
  expect(await db.faults(accountId)).toEqual([]);
});

test('a charge is dated by the day it was made', async () => {
  const { accountId } = await db.account(10);
  const [late, early] = [await streaming(accountId), await streaming(accountId)];
  for (const [id, moment] of [
    [late, '2026-03-08T23:59:59.999Z'],
    [early, '2026-03-09T00:00:00.000Z'],
  ] as const) {
    const reportThen = createReports({ database: db.database, now: () => new Date(moment) });
    await reportThen([told(id, 1_000, { ended: true })]);
  }
  // Monday the 9th begins a week.
  const { spentThisWeekMicros, spentThisMonthMicros } = await readBalance(
    db.sql,
    accountId,
    new Date('2026-03-09T10:00:00Z'),
  );
  expect([spentThisWeekMicros, spentThisMonthMicros]).toEqual([1_000n, 2_000n]);
  expect(await db.faults(accountId)).toEqual([]);
});

test('the database itself refuses what no statement may do', async () => {
  const { accountId } = await db.account(10);
  const id = await streaming(accountId);
  await report([told(id, 1_000, { ended: true })]);
  const book = (amount: number, session: string | null, kind = 'session') => db.sql`
    insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, session_id)
    values (${accountId}, ${kind}, 'available', 'revenue', ${amount}, ${session})`;
  await expect(book(1, id)).rejects.toMatchObject({ constraint: 'ledger_session_charged_once' });
  await expect(book(1, null)).rejects.toMatchObject({ code: '23514' });
  await expect(book(1, 'ses-none')).rejects.toMatchObject({ code: '23503' });
  const [first, second] = [await streaming(accountId), await streaming(accountId)];
  await expect(book(0, first)).rejects.toMatchObject({ code: '23514' });
  await expect(
    db.sql`update sessions set streamed_ms = max_seconds * 1000 + 1 where id = ${first}`,
  ).rejects.toMatchObject({ constraint: 'never_beyond_the_ceiling' });
  await expect(
    db.sql`update sessions set state = 'ended', ended_at = now(), streamed_ms = 1000, charged_micros = 5 where id = ${first}`,
  ).rejects.toMatchObject({ constraint: 'charged_what_was_streamed' });

  // And the books notice what is done behind their back.
  expect(await db.faults(accountId)).toEqual([]);
  await db.sql`select release_block(${first})`;
  expect((await db.faults(accountId)).map(({ fault }) => fault)).toEqual([
    'blocks that outlive their session, or sessions their block',
  ]);
  await book(7, second);
  expect((await db.faults(accountId)).map(({ fault }) => fault)).toContain(
    'sessions charged other than booked',
  );
});
