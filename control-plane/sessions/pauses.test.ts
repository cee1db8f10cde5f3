import { holdSlot, offerSessions, reserveSession } from '@semblance/testkit/control-plane/sessions';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { refusal } from './order.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await testDatabase();
  await offerSessions(db.sql);
});
afterAll(() => db.close());

interface Past {
  /** How long the slot was held, and how long ago that ended, in seconds. */
  readonly held?: number;
  readonly ago?: number;
  readonly reason?: string;
  readonly streamedMs?: number;
  readonly connected?: boolean;
}

/** Makes a session that has ended. */
async function past(accountId: string, { held = 15, ago = 0, ...how }: Past = {}): Promise<void> {
  const { reason = 'no_stream', streamedMs = 0, connected = false } = how;
  await db.sql`update settings set session_longest_pause_seconds = 0`;
  const { id } = await reserveSession(db.sql, accountId);
  await db.sql`update settings set session_longest_pause_seconds = default`;
  await holdSlot(db.sql, id);
  await db.sql`
    update sessions set created_at = now() - ${held + ago} * interval '1 second', streamed_ms = ${streamedMs},
      connection_id = case when ${connected} then 'one' end, connected_at = case when ${connected} then now() end
    where id = ${id}`;
  await db.sql`select settle_session(${id}, ${reason}, now() - ${ago} * interval '1 second')`;
}

/** Asks for a session, and gives it up at once. Returns the seconds to wait; 0 when it was opened. */
async function pause(accountId: string): Promise<number> {
  const { id, outcome, detail } = await reserveSession(db.sql, accountId);
  if (outcome === 'reserved') {
    await db.sql`select refuse_session(${id})`;
    return 0;
  }
  expect([outcome, detail]).toEqual(['platform_full', expect.stringMatching(/^pause \d+$/)]);
  return Number(detail?.split(' ')[1]);
}

async function accountWith(...sessions: Past[]): Promise<string> {
  const { accountId } = await db.account(100);
  for (const session of sessions) await past(accountId, session);
  return accountId;
}

const times = (n: number, how: Past = {}) => Array.from({ length: n }, () => how);

test('a client has 15 s to connect', async () => {
  const [row] = await db.sql`select session_connect_seconds as seconds from settings`;
  expect(row?.seconds).toBe(15);
});

test('the pause grows with every session without a stream, up to the setting', async () => {
  const accountId = await accountWith();
  const pauses: number[] = [];
  for (let i = 0; i < 12; i++) {
    pauses.push(await pause(accountId));
    await past(accountId);
  }
  expect(pauses).toEqual([0, 0, 5, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
});

test('ten at once that nobody connects to are followed by minutes', async () => {
  expect(await pause(await accountWith(...times(10)))).toBe(900);
});

test('it passes, and one with a stream ends it for good', async () => {
  expect(await pause(await accountWith(...times(3, { ago: 8 })))).toBe(2);
  expect(await pause(await accountWith(...times(3, { ago: 11 })))).toBe(0);
  expect(
    await pause(
      await accountWith(...times(8), { streamedMs: 1, connected: true, reason: 'session_limit_reached' }),
    ),
  ).toBe(0);
});

test.each<[string, Past, boolean]>([
  ['that its owner ended before anybody connected', { reason: 'cancelled' }, true],
  ['that a client connected to and sent nothing', { connected: true }, true],
  ['that was ended within a second', { reason: 'cancelled', held: 0.5 }, false],
  ['that the service cancelled under its client', { reason: 'cancelled', connected: true }, false],
  ['that a fault of the engine ended', { reason: 'render_failed', connected: true }, false],
])('sessions %s: %o count: %s', async (_, how, counts) => {
  expect((await pause(await accountWith(...times(6, how)))) > 0).toBe(counts);
});

test('until one has a stream only one at a time may wait for its connection', async () => {
  const accountId = await accountWith(...times(3, { ago: 3_600 }));
  const asked = await Promise.all(Array.from({ length: 8 }, () => reserveSession(db.sql, accountId)));
  expect(asked.filter(({ outcome }) => outcome === 'reserved')).toHaveLength(1);
  expect(await pause((await db.account(100)).accountId)).toBe(0);
});

test('a clock that was set back makes nobody wait, and 0 switches pauses off', async () => {
  expect(await pause(await accountWith(...times(9, { ago: -3_600 })))).toBe(0);
  const accountId = await accountWith(...times(9));
  await db.sql`update settings set session_longest_pause_seconds = 0`;
  expect(await pause(accountId)).toBe(0);
  await db.sql`update settings set session_longest_pause_seconds = default`;
});

test('the refusal says how long', () => {
  const none = { max_seconds: null, max_cost_micros: null, connect_seconds: null };
  expect(refusal({ outcome: 'platform_full', detail: 'pause 40', ...none }, 'voice')).toMatchObject({
    code: 'at_capacity',
    message: expect.stringContaining('in 40 s'),
    retryAfterSeconds: 40,
  });
  expect(refusal({ outcome: 'platform_full', detail: null, ...none }, 'voice')).toMatchObject({
    message: 'The platform is busy at present. Retry shortly.',
  });
});
