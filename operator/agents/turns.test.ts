import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createTurns } from './turns.ts';

const EVERY_MS = 200;

describe('turns', () => {
  const given: string[] = [];
  const turns = () => createTurns({ everyMs: EVERY_MS, onTurn: (name) => given.push(name) });

  beforeEach(() => {
    given.length = 0;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('lets the first one at once, and the others in the order in which they asked', () => {
    const { ask } = turns();
    expect(ask('a')).toBe(true);
    expect([ask('b'), ask('c'), ask('b')]).toEqual([false, false, false]);
    vi.advanceTimersByTime(EVERY_MS - 1);
    expect(given).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(given).toEqual(['b']);
    // Nobody gets a turn before `b` has used its own.
    vi.advanceTimersByTime(10 * EVERY_MS);
    expect([given, ask('c')]).toEqual([['b'], false]);
    expect(ask('b')).toBe(true);
    vi.advanceTimersByTime(EVERY_MS);
    expect(given).toEqual(['b', 'c']);
    expect(ask('c')).toBe(true);
  });

  it('wakes only the one whose turn it is, however many wait', () => {
    const { ask } = turns();
    const names = Array.from({ length: 1_000 }, (_, i) => `agent-${i}`);
    for (const name of names) ask(name);
    for (let i = 1; i <= 100; i++) {
      vi.advanceTimersByTime(EVERY_MS);
      expect(given).toEqual(names.slice(1, i + 1));
      expect(ask(names[i] as string)).toBe(true);
    }
  });

  it('goes on to the next at once when a turn is not used', () => {
    const { ask, pass } = turns();
    ask('a');
    for (const name of ['b', 'c', 'd']) ask(name);
    pass('c');
    vi.advanceTimersByTime(EVERY_MS);
    expect(given).toEqual(['b']);
    pass('b');
    vi.advanceTimersByTime(0);
    expect(given).toEqual(['b', 'd']);
  });

  it('has nobody wait for a turn that is over when nobody asks', () => {
    const { ask } = turns();
    ask('a');
    vi.advanceTimersByTime(EVERY_MS);
    expect(vi.getTimerCount()).toBe(0);
    expect(ask('b')).toBe(true);
  });

  it('tells nobody any more once stopped', () => {
    const { ask, stop } = turns();
    ask('a');
    ask('b');
    stop();
    vi.advanceTimersByTime(EVERY_MS);
    ask('c');
    vi.advanceTimersByTime(EVERY_MS);
    expect(given).toEqual([]);
  });
});
