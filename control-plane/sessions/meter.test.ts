import {
  holdSlot,
  openSession,
  reserveSession,
  type SessionRig,
  sessionRig,
  told,
} from '@semblance/testkit/control-plane/sessions';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readBalance } from '../billing/balance.ts';
import { connectSession } from './connect.ts';
import { createExpiry } from './expiry.ts';
import { sha256 } from './order.ts';

let db: SessionRig['db'];
let report: SessionRig['report'];
let connect: SessionRig['connect'];
let streaming: SessionRig['streaming'];
let rowOf: SessionRig['rowOf'];
let moneyOf: SessionRig['moneyOf'];
let ended: SessionRig['ended'];
beforeAll(async () => {
  ({ db, report, connect, streaming, rowOf, moneyOf, ended } = await sessionRig());
});
afterAll(() => db.close());

test('nothing is debited at open; the seconds streamed are charged at the end, and the block is given free', async () => {
  const { accountId } = await db.account(1);
  const before = await readBalance(db.sql, accountId);
  const id = await streaming(accountId, { minutes: 10 });
  const reserved = { reservedMicros: 600_000n, availableMicros: 400_000n };
  expect(await readBalance(db.sql, accountId)).toEqual({ ...before, ...reserved });
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
    sessionId: id,
    capability: 'voice',
    status: 'succeeded',
    reason: undefined,
    streamedMs: 12_345n,
    chargedMicros: 12_345n,
  });
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
    status: 'succeeded',
    reason: 'session_limit_reached',
    streamed_ms: 60_000n,
    charged_micros: 60_000n,
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
  // A reason is no failure: streamed time is paid.
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
    capability: 'voice',
    accountId,
    maxDurationSeconds: 60,
    agentAddress: '127.0.0.1:9',
    agentIncarnation: 'one',
    reportIntervalMs: 2_000,
    reportTimeoutMs: 15_000,
  });
  await report([told(id, 5, { connectionId: `connection ${admitted}`, ended: true })]);
  await expect(connect(id, `connection ${admitted}`)).rejects.toMatchObject({ code: 'not_found' });
});

test('a connection needs the token, in time', async () => {
  const { accountId } = await db.account(10);
  const id = await openSession(db.sql, accountId);
  const ask = (sessionId: string, token: Buffer, connectionId = 'one') =>
    connectSession(db.database, { sessionId, tokenSha256: token, connectionId }, async () => undefined);
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
  await db.sql`update sessions set connect_by = now() - interval '1 second' where id = ${id}`;
  await db.sql`select * from expire_sessions(0, null, null, null)`;
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
    (
      await db.sql<{ session: string }[]>`select session from expire_sessions(${heard}, null, null, null)`
    ).map(({ session }) => session);
  const mine = [hangs, waits, silent];
  expect((await expire(3_600)).filter((id) => mine.includes(id))).toEqual([]);
  await db.sql`update sessions set asked_at = now() - interval '31 seconds' where id = ${hangs}`;
  await db.sql`update sessions set connect_by = now() - interval '1 second' where id = ${waits}`;
  await db.sql`update sessions set reported_at = now() - interval '16 seconds' where id = ${silent}`;
  // A process without answers for so long cannot tell silence from an outage.
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
  // The opening gets its slot too late, and the gateway's report comes too late.
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
    ...Array.from({ length: 5 }, () => db.sql`select * from expire_sessions(3600, null, null, null)`),
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

  // The books detect changes made behind their back.
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
