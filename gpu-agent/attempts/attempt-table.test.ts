import { describe, expect, it } from 'vitest';
import { type AttemptTable, createAttemptTable, LIMITS, type Outcome } from './attempt-table.ts';

const ref = (jobUid: string, attempt: number) => ({ jobUid, attempt });
const SUCCEEDED: Outcome = {
  state: 'succeeded',
  output: {
    key: 'k',
    contentType: 'image/png',
    sizeBytes: 1,
    sha256Hex: '00',
    unit: 'image',
    milliUnits: 1000,
    size: undefined,
    stages: [],
    engine: 'test 1',
  },
};
const ended = (state: 'failed' | 'interrupted' | 'stopped'): Outcome => ({
  state,
  failure: { code: 'processing_failed', message: state },
});
const start = (table: AttemptTable, jobUid: string, attempt: number, options = {}) =>
  table.start(ref(jobUid, attempt), { slots: 1, capacity: 2, draining: false, now: 0, ...options });

describe('starting', () => {
  it('begins once and answers a repetition as the first time', () => {
    const table = createAttemptTable();
    expect(start(table, 'a', 1).kind).toBe('begin');
    expect(start(table, 'a', 1).kind).toBe('known');
    table.finish(ref('a', 1), SUCCEEDED, 1);
    expect(start(table, 'a', 1).kind).toBe('known');
    expect(table.slotsUsed).toBe(0);
  });

  it.each([
    ['an older attempt', 3, 2],
    ['the same attempt', 3, 3],
  ])('refuses %s once the result was acknowledged', (_what, first, second) => {
    const table = createAttemptTable();
    start(table, 'a', first);
    table.finish(ref('a', first), ended('interrupted'), 1);
    expect(table.acknowledge(ref('a', first))).toBe('forgotten');
    expect(start(table, 'a', second)).toMatchObject({ kind: 'refused', why: 'fenced' });
    expect(start(table, 'a', first + 1).kind).toBe('begin');
  });

  it('refuses for ever what was stopped before it began, and what is older', () => {
    const table = createAttemptTable();
    expect(table.stop(ref('a', 2), 0)).toEqual([]);
    expect(start(table, 'a', 1)).toMatchObject({ why: 'fenced' });
    expect(start(table, 'a', 2)).toMatchObject({ why: 'fenced' });
    expect(start(table, 'a', 3).kind).toBe('begin');
    expect(start(table, 'b', 1).kind).toBe('begin');
  });

  it('asks to end an older attempt of the job that still runs', () => {
    const table = createAttemptTable();
    start(table, 'a', 1);
    expect(start(table, 'a', 2)).toEqual({ kind: 'after', older: ref('a', 1) });
    table.finish(ref('a', 1), ended('stopped'), 1);
    expect(start(table, 'a', 2).kind).toBe('begin');
  });

  it.each([
    { slots: 1, capacity: 0, kind: 'refused' },
    { slots: 1, capacity: 1, kind: 'begin' },
    { slots: 2, capacity: 1, kind: 'refused' },
    { slots: 2, capacity: 2, kind: 'begin' },
  ])('a render of $slots slots on $capacity is $kind', ({ slots, capacity, kind }) => {
    const decision = start(createAttemptTable(), 'a', 1, { slots, capacity });
    expect(decision.kind).toBe(kind);
    if (decision.kind === 'refused') expect(decision.why).toBe('no-slot');
  });

  it('counts the slots of running attempts only, and does not fence what found no slot', () => {
    const table = createAttemptTable();
    start(table, 'a', 1);
    start(table, 'b', 1);
    expect(start(table, 'c', 1)).toMatchObject({ why: 'no-slot' });
    table.finish(ref('a', 1), ended('failed'), 1);
    expect(start(table, 'c', 1).kind).toBe('begin');
  });

  it('does not take work while draining, but knows what it took', () => {
    const table = createAttemptTable();
    start(table, 'a', 1);
    expect(start(table, 'a', 1, { draining: true }).kind).toBe('known');
    expect(start(table, 'b', 1, { draining: true })).toMatchObject({ why: 'draining' });
    expect(start(table, 'b', 1).kind).toBe('begin');
  });
});

describe('running and ending', () => {
  it('stops an attempt and every older one of its job', () => {
    const table = createAttemptTable();
    start(table, 'a', 1);
    start(table, 'b', 1);
    expect(table.stop(ref('a', 4), 0)).toEqual([ref('a', 1)]);
    expect(start(table, 'a', 4)).toMatchObject({ why: 'fenced' });
  });

  it('does not stop a newer attempt', () => {
    const table = createAttemptTable();
    start(table, 'a', 5);
    expect(table.stop(ref('a', 4), 0)).toEqual([]);
  });

  it('keeps the first outcome', () => {
    const table = createAttemptTable();
    start(table, 'a', 1);
    expect(table.finish(ref('a', 1), SUCCEEDED, 1)?.progress).toBe(1);
    expect(table.finish(ref('a', 1), ended('stopped'), 2)).toBeUndefined();
    expect(table.get(ref('a', 1))?.outcome?.state).toBe('succeeded');
  });

  it.each([
    ['rises', 0.5, 0.6, 0.6],
    ['never falls', 0.5, 0.4, 0.5],
    ['stays within 1', 0.5, 7, 1],
    ['survives nonsense', 0.5, Number.NaN, 0.5],
  ])('progress %s', (_what, first, second, seen) => {
    const table = createAttemptTable();
    start(table, 'a', 1);
    table.progress(ref('a', 1), { fraction: first, stage: 'x', now: 0 });
    table.progress(ref('a', 1), { fraction: second, stage: 'y', now: 0 });
    expect(table.get(ref('a', 1))).toMatchObject({ progress: seen, stage: 'y' });
  });

  it('estimates the time left from the pace since the fetch, and takes the engine at its word', () => {
    const table = createAttemptTable();
    start(table, 'a', 1);
    const left = (fraction: number, now: number, secondsLeft?: number) =>
      table.progress(ref('a', 1), { fraction, stage: 'swap', now, secondsLeft })?.etaSeconds;
    table.progress(ref('a', 1), { fraction: 0.05, stage: 'fetch', now: 50_000 });
    expect(left(0.1, 60_000)).toBeUndefined();
    // Half a second is too short for an estimate.
    expect(left(0.2, 60_500)).toBeUndefined();
    // Four tenths took 8 s, so five tenths take 10 s.
    expect(left(0.5, 68_000)).toBeCloseTo(10);
    expect(left(0.6, 69_000, 3)).toBe(3);
    // The pace gives 2 s and 1.89 s; the former estimate (8.67 s at the third report) still has its share.
    expect(left(0.9, 76_000, Number.NaN)).toBeCloseTo(1.92, 2);
    expect(left(0.91, 77_000, -1)).toBeCloseTo(1.095, 3);
    table.finish(ref('a', 1), SUCCEEDED, 80_000);
    expect(table.get(ref('a', 1))?.etaSeconds).toBeUndefined();
  });

  it('tells the time left that an engine says anew where it stands, by whole seconds', () => {
    const table = createAttemptTable();
    start(table, 'a', 1);
    const left = (secondsLeft: number | undefined, now: number) =>
      table.progress(ref('a', 1), { fraction: 0.5, stage: 'swap', now, secondsLeft })?.etaSeconds;
    expect(left(undefined, 0)).toBeUndefined();
    expect(left(600, 1_000)).toBe(600);
    expect(left(600, 2_000)).toBeUndefined();
    expect(left(599.5, 3_000)).toBeUndefined();
    expect(left(598, 4_000)).toBe(598);
    expect(left(undefined, 5_000)).toBeUndefined();
    expect(left(Number.NaN, 6_000)).toBeUndefined();
    expect(table.get(ref('a', 1))).toMatchObject({ progress: 0.5, etaSeconds: 598 });
  });

  it('tells no change where there is none', () => {
    const table = createAttemptTable();
    expect(table.progress(ref('a', 1), { fraction: 0.5, stage: 'x', now: 0 })).toBeUndefined();
    start(table, 'a', 1);
    expect(table.progress(ref('a', 1), { fraction: 0.5, stage: 'x', now: 0 })).toBeDefined();
    expect(table.progress(ref('a', 1), { fraction: 0.5, stage: 'x', now: 0 })).toBeUndefined();
    table.finish(ref('a', 1), SUCCEEDED, 1);
    expect(table.progress(ref('a', 1), { fraction: 0.9, stage: 'z', now: 0 })).toBeUndefined();
  });

  it('holds a result until it is acknowledged, and nothing else can be', () => {
    const table = createAttemptTable();
    start(table, 'a', 1);
    expect(table.acknowledge(ref('a', 1))).toBe('running');
    table.finish(ref('a', 1), SUCCEEDED, 1);
    expect(table.list()).toHaveLength(1);
    expect(table.acknowledge(ref('a', 1))).toBe('forgotten');
    expect(table.acknowledge(ref('a', 1))).toBe('unknown');
    expect(table.list()).toHaveLength(0);
  });
});

describe('bounds', () => {
  it('takes no work while too many results wait, and takes it again when they were acknowledged', () => {
    const table = createAttemptTable();
    for (let job = 0; job < LIMITS.unacknowledged; job++) {
      start(table, `j${job}`, 1);
      table.finish(ref(`j${job}`, 1), SUCCEEDED, 1);
    }
    expect(start(table, 'e', 1)).toMatchObject({ why: 'no-slot' });
    table.acknowledge(ref('j0', 1));
    expect(start(table, 'e', 1).kind).toBe('begin');
  });

  it('forgets stopped attempts rather than refuse work, and results nobody asked for after their time', () => {
    const table = createAttemptTable();
    const half = LIMITS.unacknowledged / 2;
    for (let job = 0; job < 2 * half; job++) {
      start(table, `j${job}`, 1);
      table.finish(ref(`j${job}`, 1), ended(job < half ? 'stopped' : 'failed'), 1);
    }
    const failed = ref(`j${half}`, 1);
    expect(start(table, 'e', 1).kind).toBe('begin');
    expect(table.get(failed)).toBeDefined();
    expect(start(table, 'f', 1, { now: LIMITS.resultMs + 1 }).kind).toBe('begin');
    expect(table.get(failed)).toBeUndefined();
  });

  it('remembers fences by number and time, within a hard bound', () => {
    const table = createAttemptTable();
    const count = 2 * LIMITS.fences;
    const last = `j${count - 1}`;
    for (let job = 0; job < count; job++) table.stop(ref(`j${job}`, 1), 0);
    expect(start(table, 'j0', 1, { now: LIMITS.fenceMs / 2 })).toMatchObject({ why: 'fenced' });
    // The time of all fences is over, so only the newest stay.
    const now = 2 * LIMITS.fenceMs;
    table.stop(ref('late', 1), now);
    expect(start(table, 'j0', 1, { now }).kind).toBe('begin');
    expect(start(table, last, 1, { now })).toMatchObject({ why: 'fenced' });
    for (let job = 0; job < 10 * LIMITS.fences; job++) table.stop(ref(`k${job}`, 1), now + 1);
    expect(start(table, last, 1, { now: now + 1 }).kind).toBe('begin');
  });
});
