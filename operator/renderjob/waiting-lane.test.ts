import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { WaitingReason } from './types.ts';
import { createWaitingLane, MAX_UNDER_WAY, REFRESH_PER_SECOND, TELL_PER_SECOND } from './waiting-lane.ts';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** Creates a lane of jobs. With `instant`, a status is written as soon as it is due. */
function world(count: number, { instant = true } = {}) {
  const statuses = new Map<string, RenderJob['status']>();
  const writes: string[] = [];
  const due: string[] = [];
  const lane = createWaitingLane({
    find: (uid) => ({ metadata: { uid }, status: statuses.get(uid) }) as RenderJob,
    onDue: (uid) => void (instant ? queueMicrotask(() => write(uid)) : due.push(uid)),
  });
  function write(uid: string): void {
    const reason = lane.take(uid);
    if (reason) {
      const condition = {
        type: 'Ready',
        status: 'False',
        lastTransitionTime: '',
        ...reason,
      } as const;
      statuses.set(uid, { phase: 'Pending', queuePosition: reason.position, conditions: [condition] });
      writes.push(uid);
    }
    lane.done(uid);
  }
  const queue = (from: number, reason = 'SlotsBusy'): Map<string, WaitingReason> =>
    new Map(
      Array.from({ length: count - from }, (_, i) => [
        `j${from + i}`,
        { reason, message: '', position: i + 1 },
      ]),
    );
  return { lane, writes, due, queue, statuses, write };
}

describe('telling why jobs wait', () => {
  it('tells all, front first, within its budget', async () => {
    const { lane, writes, queue } = world(100);
    lane.update(queue(0));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(writes.length).toBeGreaterThanOrEqual(TELL_PER_SECOND);
    expect(writes.length).toBeLessThanOrEqual(2 * TELL_PER_SECOND + 1);
    expect(writes.slice(0, 3)).toEqual(['j0', 'j1', 'j2']);
    await vi.advanceTimersByTimeAsync(4_000);
    expect(writes).toEqual(Array.from({ length: 100 }, (_, i) => `j${i}`));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(writes).toHaveLength(100);
    lane.stop();
  });

  it('does not write everybody anew each time the queue moves on', async () => {
    const { lane, writes, queue, statuses } = world(500);
    lane.update(queue(0));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(writes).toHaveLength(500);
    for (let moved = 1; moved <= 40; moved++) {
      lane.update(queue(moved));
      await vi.advanceTimersByTimeAsync(250);
    }
    expect(writes.length - 500).toBeLessThanOrEqual(REFRESH_PER_SECOND * 11);
    // Places at the front are right to within a few seconds.
    await vi.advanceTimersByTimeAsync(5_000);
    expect(statuses.get('j40')?.queuePosition).toBe(1);
    lane.stop();
  });

  it('tells another reason without waiting for its turn to refresh', async () => {
    const { lane, writes, queue, statuses } = world(3);
    lane.update(queue(0));
    await vi.advanceTimersByTimeAsync(100);
    lane.update(queue(0, 'AgentsDraining'));
    await vi.advanceTimersByTimeAsync(100);
    expect(writes).toEqual(['j0', 'j1', 'j2', 'j0', 'j1', 'j2']);
    expect(statuses.get('j2')?.conditions?.[0]?.reason).toBe('AgentsDraining');
    lane.stop();
  });

  it('tells that it is only a matter of time as it tells places, and what is to be done at once', async () => {
    const { lane, statuses, queue } = world(200);
    lane.update(queue(0, 'AgentsDraining'));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(statuses.size).toBe(200);
    const telling = (reason: string) =>
      [...statuses.values()].filter((status) => status?.conditions?.[0]?.reason === reason).length;
    lane.update(queue(0));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(telling('SlotsBusy')).toBeGreaterThan(9 * REFRESH_PER_SECOND);
    expect(telling('SlotsBusy')).toBeLessThanOrEqual(11 * REFRESH_PER_SECOND + 1);
    await vi.advanceTimersByTimeAsync(40_000);
    expect(telling('SlotsBusy')).toBe(200);
    lane.update(queue(0, 'NoAgents'));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(telling('NoAgents')).toBe(200);
    lane.stop();
  });

  it('writes no place of who is about to begin, until the queue stops', async () => {
    const { lane, writes, queue, statuses } = world(100);
    lane.update(queue(0));
    await vi.advanceTimersByTimeAsync(10_000);
    // Five begin every second: the first twenty begin within four.
    for (let moved = 1; moved <= 20; moved++) {
      lane.update(queue(moved));
      await vi.advanceTimersByTimeAsync(200);
    }
    writes.length = 0;
    for (let moved = 21; moved <= 50; moved++) {
      lane.update(queue(moved));
      await vi.advanceTimersByTimeAsync(200);
      const last = writes.at(-1);
      if (last) expect(Number(last.slice(1))).toBeGreaterThanOrEqual(moved + 18);
    }
    expect(statuses.get('j50')?.queuePosition).toBeGreaterThan(1);
    await vi.advanceTimersByTimeAsync(6_000);
    expect(['j50', 'j51', 'j52'].map((uid) => statuses.get(uid)?.queuePosition)).toEqual([1, 2, 3]);
    lane.stop();
  });

  it('keeps back while the API is slow, and forgets who no longer waits', async () => {
    const { lane, writes, due, queue, write } = world(50, { instant: false });
    lane.update(queue(0));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(due).toHaveLength(MAX_UNDER_WAY);
    lane.update(queue(1));
    for (const uid of due.splice(0)) write(uid);
    expect(writes).toEqual(['j1']);
    // Those writes took ten seconds, so the next ones must wait.
    await vi.advanceTimersByTimeAsync(1_500);
    expect(due).toEqual([]);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(due).toEqual(['j2', 'j3']);
    lane.stop();
  });

  it('keeps the front true while many others have not been told anything yet', async () => {
    const { lane, writes, queue, statuses } = world(2_000);
    lane.update(queue(0));
    await vi.advanceTimersByTimeAsync(5_000);
    const before = writes.length;
    expect(before).toBeLessThan(200);
    lane.update(queue(1));
    await vi.advanceTimersByTimeAsync(4_000);
    expect(statuses.get('j1')?.queuePosition).toBe(1);
    expect(writes.length).toBeGreaterThan(before + 2 * TELL_PER_SECOND);
    lane.stop();
  });
});
