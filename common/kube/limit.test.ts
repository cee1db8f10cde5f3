import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createLimit } from './limit.ts';

describe('the limit of a piece of work', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const sources = () => [new AbortController(), new AbortController()] as const;
  const listeners = (of: AbortController) => getEventListeners(of.signal, 'abort').length;

  it('aborts with whichever aborts first, for its reason', () => {
    const [one, other] = sources();
    const { signal } = createLimit([one.signal, other.signal]);
    const reason = new Error('enough');
    other.abort(reason);
    one.abort(new Error('too late'));
    expect(signal.reason).toBe(reason);
    expect([listeners(one), listeners(other)]).toEqual([0, 0]);
  });

  it('is over from the beginning where one of them is, and its time is never set', () => {
    const reason = new Error('before');
    const [one] = sources();
    const limit = createLimit([one.signal, AbortSignal.abort(reason)]);
    limit.expireIn(5);
    expect(limit.signal.reason).toBe(reason);
    expect([listeners(one), vi.getTimerCount()]).toEqual([0, 0]);
  });

  it('aborts when its time is over, counted from when it was set last', () => {
    const [one] = sources();
    const limit = createLimit([one.signal]);
    limit.expireIn(100);
    vi.advanceTimersByTime(90);
    limit.expireIn(100);
    vi.advanceTimersByTime(99);
    expect(limit.signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(limit.signal.reason).toMatchObject({ name: 'TimeoutError', message: 'not done within 100 ms' });
    expect(limit.signal.reason).toBeInstanceOf(DOMException);
    expect(listeners(one)).toBe(0);
  });

  it('leaves nothing behind when the work has ended', () => {
    const [one] = sources();
    const limit = createLimit([one.signal]);
    limit.expireIn(100);
    expect([listeners(one), vi.getTimerCount()]).toEqual([1, 1]);
    limit.end();
    expect([listeners(one), vi.getTimerCount()]).toEqual([0, 0]);
    one.abort();
    vi.advanceTimersByTime(1_000);
    expect(limit.signal.aborted).toBe(false);
  });
});
