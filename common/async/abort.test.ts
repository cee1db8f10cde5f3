import { getEventListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { afterAbort, deadline, raceAbort } from './abort.ts';

describe('raceAbort', () => {
  it('gives what the work gives, and lets go of the signal', async () => {
    const { signal } = new AbortController();
    expect(await raceAbort(signal, delay(5, 'done'))).toBe('done');
    await expect(raceAbort(signal, Promise.reject(new Error('broken')))).rejects.toThrow('broken');
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('throws the reason as soon as the signal aborts, also one that already has', async () => {
    const ending = new AbortController();
    const racing = raceAbort(ending.signal, new Promise(() => {}));
    ending.abort(new Error('enough'));
    await expect(racing).rejects.toThrow('enough');
    await expect(raceAbort(ending.signal, Promise.resolve(1))).rejects.toThrow('enough');
    expect(getEventListeners(ending.signal, 'abort')).toEqual([]);
  });

  it('leaves no rejection unhandled when the work fails later', async () => {
    const ending = new AbortController();
    const work = Promise.withResolvers<void>();
    const racing = raceAbort(ending.signal, work.promise);
    ending.abort(new Error('enough'));
    await expect(racing).rejects.toThrow('enough');
    work.reject(new Error('later'));
    await delay(5);
  });
});

it('afterAbort waits for the signal', async () => {
  const ending = new AbortController();
  const waiting = afterAbort(ending.signal);
  ending.abort();
  await waiting;
  await afterAbort(ending.signal);
});

describe('deadline', () => {
  it('aborts with the other signal, or after its time', async () => {
    const ending = new AbortController();
    const first = deadline(ending.signal, 60_000, 'too slow');
    ending.abort(new Error('enough'));
    expect(first.signal.reason.message).toBe('enough');
    const second = deadline(new AbortController().signal, 5, 'too slow');
    await afterAbort(second.signal);
    expect(second.signal.reason.message).toBe('too slow');
    first.release();
    second.release();
  });

  it('holds nothing once it is released', async () => {
    const { signal } = new AbortController();
    const own = deadline(signal, 5, 'too slow');
    own.release();
    await delay(15);
    expect(own.signal.aborted).toBe(false);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});
