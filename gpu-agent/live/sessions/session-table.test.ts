import { describe, expect, it } from 'vitest';
import { createSessionTable, DEFAULT_SESSION_LIMITS, type SessionClaim } from './session-table.ts';

const TICKET = new Uint8Array(32).fill(1);
const OTHER = new Uint8Array(32).fill(2);

const claimOf = (id: string, change: Partial<SessionClaim> = {}): SessionClaim => ({
  id,
  capability: 'voice',
  ticketSha256: TICKET,
  connectDeadlineMs: 60_000,
  maxDurationMs: 10_000,
  ...change,
});
const room = (at: number, capacity = 2) => ({ capacity, draining: false, at });
const CLOSED = { reason: undefined, message: 'closed' } as const;

function tableWith(id: string, change: Partial<SessionClaim> = {}) {
  const table = createSessionTable();
  expect(table.claim(claimOf(id, change), room(0)).kind).toBe('begin');
  return table;
}

describe('claims', () => {
  it('take a slot of their capability once, whoever asks again', () => {
    const table = tableWith('a');
    expect(table.claim(claimOf('a'), room(1)).kind).toBe('known');
    expect(table.claim(claimOf('b'), room(1)).kind).toBe('begin');
    expect(table.claim(claimOf('c'), room(1))).toMatchObject({ kind: 'refused', why: 'no-slot' });
    expect(table.claim(claimOf('d', { capability: 'full-live-swap' }), room(1)).kind).toBe('begin');
    // The session is already held, so it needs no room, and a drain does not matter.
    expect(table.claim(claimOf('a'), { capacity: 0, draining: true, at: 2 }).kind).toBe('known');
    expect(table.held('voice')).toHaveLength(2);
  });

  it('are refused with another ticket, while draining, and without capacity', () => {
    const table = tableWith('a');
    const claim = claimOf('a', { ticketSha256: OTHER });
    expect(table.claim(claim, room(1))).toMatchObject({ why: 'other-ticket' });
    expect(table.claim(claimOf('b'), { ...room(1), draining: true })).toMatchObject({ why: 'draining' });
    expect(table.claim(claimOf('b'), room(1, 0))).toMatchObject({ why: 'no-slot' });
  });

  it('are refused for ever once the session is ending, has ended, or was ended before it was claimed', () => {
    const table = tableWith('a');
    expect(table.ending('a', CLOSED, 1)).toBe('ending');
    expect(table.claim(claimOf('a'), room(2))).toMatchObject({ why: 'ended' });
    table.ended('a', 3);
    expect(table.claim(claimOf('a'), room(4))).toMatchObject({ why: 'ended' });
    expect(table.ending('b', CLOSED, 5)).toBe('over');
    expect(table.claim(claimOf('b'), room(6))).toMatchObject({ why: 'ended' });
  });

  it('wait until the slot of an ending session is free', () => {
    const table = tableWith('a');
    table.ending('a', CLOSED, 1);
    expect(table.claim(claimOf('b'), room(2, 1))).toMatchObject({ why: 'no-slot' });
    table.ended('a', 3);
    expect(table.claim(claimOf('b'), room(4, 1)).kind).toBe('begin');
  });
});

describe('the relay', () => {
  it('is admitted once, with the ticket', () => {
    const table = tableWith('a');
    expect(table.connect('b', TICKET, 1)).toBe('unknown');
    expect(table.connect('a', OTHER, 1)).toBe('wrong-ticket');
    expect(table.connect('a', TICKET.subarray(1), 1)).toBe('wrong-ticket');
    expect(table.get('a')?.state).toBe('claimed');
    expect(table.connect('a', TICKET, 1)).toBe('connected');
    expect(table.connect('a', TICKET, 2)).toBe('taken');
    table.ending('a', CLOSED, 3);
    table.ended('a', 3);
    expect(table.connect('a', TICKET, 4)).toBe('taken');
    expect(table.connect('a', OTHER, 4)).toBe('wrong-ticket');
  });

  it('is not admitted to a session that ended before it came', () => {
    const table = tableWith('a');
    table.ending('a', CLOSED, 1);
    expect(table.connect('a', OTHER, 2)).toBe('wrong-ticket');
    expect(table.connect('a', TICKET, 2)).toBe('ended');
    table.ended('a', 3);
    expect(table.connect('a', TICKET, 4)).toBe('ended');
  });
});

describe('the stream', () => {
  it('is measured from the first to the last converted message, and what comes after the end does not count', () => {
    const table = tableWith('a');
    table.connect('a', TICKET, 100);
    for (let k = 0; k < 3; k++) table.received('a');
    table.dropped('a');
    expect(table.get('a')).toMatchObject({ state: 'connected', streamedMs: 0 });
    expect(table.converted('a', 1_000)).toBe(true);
    expect(table.converted('a', 3_500)).toBe(false);
    // A clock that goes back does not reduce the streamed time.
    table.converted('a', 3_000);
    const counts = { streamedMs: 2_500, received: 3, converted: 3, dropped: 1 };
    expect(table.get('a')).toMatchObject({ state: 'streaming', ...counts });
    table.ending('a', { reason: 'cancelled', message: '' }, 4_000);
    table.ending('a', CLOSED, 4_001);
    table.received('a');
    table.dropped('a');
    expect(table.converted('a', 9_000)).toBe(false);
    table.ended('a', 9_001);
    expect(table.get('a')).toMatchObject({ state: 'ended', ...counts, end: { reason: 'cancelled' } });
  });
});

describe('time', () => {
  const { idleMs, overtimeMs } = DEFAULT_SESSION_LIMITS;

  it('ends a session that nobody connects to', () => {
    const table = tableWith('a', { connectDeadlineMs: 5_000 });
    expect(table.nextDue()).toBe(5_000);
    expect(table.due(4_999)).toEqual([]);
    expect(table.due(5_000)).toMatchObject([{ id: 'a', end: { reason: 'no_stream' } }]);
    table.connect('a', TICKET, 4_999);
    expect(table.due(5_000)).toEqual([]);
  });

  it('ends one that is connected and converts nothing, from the start or later', () => {
    const table = tableWith('a', { maxDurationMs: 10 * idleMs });
    table.connect('a', TICKET, 1_000);
    expect(table.nextDue()).toBe(1_000 + idleMs);
    // Received messages without a conversion do not keep a session alive.
    table.received('a');
    expect(table.due(1_000 + idleMs)).toMatchObject([{ end: { reason: 'timed_out' } }]);
    table.converted('a', 500 + idleMs);
    expect(table.due(1_000 + idleMs)).toEqual([]);
    expect(table.nextDue()).toBe(500 + 2 * idleMs);
  });

  it('ends one that goes on longer than granted, a little later than the gateway does', () => {
    const table = tableWith('a', { maxDurationMs: 10_000 });
    table.connect('a', TICKET, 0);
    table.converted('a', 2_000);
    table.converted('a', 11_900);
    expect(table.due(12_000)).toEqual([]);
    expect(table.nextDue()).toBe(12_000 + overtimeMs);
    expect(table.due(12_000 + overtimeMs)).toMatchObject([{ end: { reason: 'session_limit_reached' } }]);
  });

  it('has nothing due while a session ends, and after it', () => {
    const table = tableWith('a');
    table.ending('a', CLOSED, 1);
    expect([table.nextDue(), table.due(1e9)]).toEqual([undefined, []]);
    table.ended('a', 2);
    expect([table.nextDue(), table.due(1e9)]).toEqual([undefined, []]);
  });
});

describe('what is kept', () => {
  const LIMITS = { ...DEFAULT_SESSION_LIMITS, told: 3, toldMs: 1_000, tombstones: 5, tombstoneMs: 60_000 };

  function endMany(count: number, at: (k: number) => number) {
    const table = createSessionTable(LIMITS);
    for (let k = 0; k < count; k++) {
      table.claim(claimOf(`s${k}`), room(at(k)));
      table.ending(`s${k}`, CLOSED, at(k));
      table.ended(`s${k}`, at(k));
    }
    return table;
  }

  it('of ended sessions is told for a while, and bounded', () => {
    expect(
      endMany(50, () => 0)
        .list()
        .map(({ id }) => id),
    ).toEqual(['s47', 's48', 's49']);
    const table = endMany(3, () => 0);
    table.claim(claimOf('new'), room(1_000));
    expect(table.list().map(({ id }) => id)).toEqual(['new']);
  });

  it('is that a session ended, within its time and beyond it by count', () => {
    const within = endMany(50, () => 0);
    for (const k of [0, 49]) expect(within.claim(claimOf(`s${k}`), room(1))).toMatchObject({ why: 'ended' });
    // A session that is older than its time and beyond the count is forgotten. Its token has expired by then, so it
    // cannot be used again.
    const later = endMany(50, (k) => k * 60_000);
    expect(later.claim(claimOf('s0'), room(50 * 60_000)).kind).toBe('begin');
    expect(later.claim(claimOf('s46'), room(50 * 60_000))).toMatchObject({ why: 'ended' });
    // However fast sessions end, at most ten times the count is kept.
    expect(endMany(52, () => 0).claim(claimOf('s0'), room(1)).kind).toBe('begin');
  });
});
