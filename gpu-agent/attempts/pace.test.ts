import { describe, expect, it } from 'vitest';
import { createPace } from './pace.ts';

/** Returns the estimate at each report of work that progresses by these shares, one for each second. */
function estimates(shares: readonly number[], everyMs = 1_000): (number | undefined)[] {
  const pace = createPace(0, 0);
  let done = 0;
  return shares.map((share, i) => {
    done += share;
    return pace.secondsLeft(done, (i + 1) * everyMs);
  });
}
const steady = (share: number, count: number) => Array<number>(count).fill(share);

describe('the time left', () => {
  it('is right from the beginning to the end where the pace is even', () => {
    const left = estimates(steady(1 / 200, 200));
    expect(left.slice(0, 3)).toEqual([undefined, undefined, undefined]);
    for (const [i, seconds] of left.entries()) if (i >= 3) expect(seconds).toBeCloseTo(199 - i, 5);
  });

  it('is told of slow work after ten seconds, however little is done', () => {
    const left = estimates(steady(1 / 7_200, 20));
    expect(left[8]).toBeUndefined();
    expect(left[9]).toBeCloseTo(7_190, 3);
  });

  it('follows a pace that changes, sooner than the mean of all that was done', () => {
    // The first half takes 100 s, and the second half is three times as slow.
    const left = estimates([...steady(1 / 200, 100), ...steady(1 / 600, 300)]);
    expect(left[99]).toBeCloseTo(100, 5);
    const [after, mean] = [150, 100 + 150];
    const done = 0.5 + after / 600;
    const truth = 300 - after;
    const byMean = (mean / done) * (1 - done);
    expect(Math.abs((left[99 + after] as number) - truth)).toBeLessThan(Math.abs(byMean - truth) / 2);
    expect(left[99 + 250]).toBeCloseTo(50, 5);
  });

  it('does not jump with work that comes in bursts', () => {
    // There is no progress for nine tenths of each period, and then ten frames come at once.
    const left = estimates([...Array(30)].flatMap(() => [...steady(0, 9), 1 / 30]));
    for (let i = 60; i < left.length; i++) {
      const [before, now] = [left[i - 1] as number, left[i] as number];
      expect(Math.abs(now - (300 - i - 1)), `after ${i} s`).toBeLessThan(300 / 4);
      expect(Math.abs(now - before), `after ${i} s`).toBeLessThan(20);
    }
  });

  it('goes by what was done before while nothing is', () => {
    const left = estimates([...steady(1 / 100, 40), ...steady(0, 100)]);
    expect(left[39]).toBeCloseTo(60, 5);
    // Four tenths took 140 s, so the other six take 210 s; the estimate lags a little.
    expect(left.at(-1)).toBeGreaterThan(190);
    expect(left.at(-1)).toBeLessThanOrEqual(210);
  });

  it('remembers no more of long work than of short', () => {
    const pace = createPace(0, 0);
    let last: number | undefined;
    for (let i = 1; i <= 200_000; i++) last = pace.secondsLeft(i / 400_000, i * 50);
    expect(last).toBeCloseTo(10_000, 3);
  });

  it('is nothing that could be told of work that has not begun or goes back', () => {
    const pace = createPace(0.5, 1_000);
    expect(pace.secondsLeft(0.5, 60_000)).toBeUndefined();
    expect(pace.secondsLeft(0.4, 61_000)).toBeUndefined();
    expect(pace.secondsLeft(0.75, 121_000)).toBeGreaterThan(0);
  });
});
