import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createPace } from './pace.ts';

const limits = { idleMs: 30_000, totalMs: 3_600_000, rateWindowMs: 60_000, leastBytesPerSecond: 4096 };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('createPace', () => {
  it('refuses a drip once the window is full of waiting', () => {
    const pace = createPace(limits);
    const drip = (times: number) => {
      for (let i = 0; i < times; i++) {
        pace.arrived(1);
        pace.waited(29_000);
      }
    };
    drip(2);
    expect(() => drip(1)).toThrow(/less than 4096 bytes a second/);
  });

  it('takes a client at the least rate for as long as it likes, and begins each window anew', () => {
    const pace = createPace(limits);
    for (let second = 0; second < 600; second++) {
      pace.arrived(4096);
      pace.waited(1000);
    }
    expect(() => {
      for (let second = 0; second < 60; second++) {
        pace.arrived(4000);
        pace.waited(1000);
      }
    }).toThrow(/less than 4096/);
  });

  it('does not count the time of a slow consumer', () => {
    const pace = createPace({ ...limits, rateWindowMs: 50 });
    for (let i = 0; i < 5; i++) {
      vi.advanceTimersByTime(20);
      pace.arrived(10);
      pace.waited(1);
    }
  });

  it('gives the next wait what is left of the whole', () => {
    expect(createPace(limits).nextWait().ms).toBe(30_000);
    const pace = createPace({ ...limits, totalMs: 100 });
    pace.check();
    const { ms, refusal } = pace.nextWait();
    expect(ms).toBe(100);
    expect(refusal()).toMatchObject({
      code: 'invalid_input',
      message: expect.stringMatching(/longer than 0.1 s/),
    });
    vi.advanceTimersByTime(110);
    expect(() => pace.check()).toThrow(/longer than 0.1 s/);
    expect(pace.nextWait().ms).toBe(0);
  });
});
