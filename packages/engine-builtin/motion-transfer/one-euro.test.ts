import { describe, expect, it } from 'vitest';
import { OneEuroFilter } from './one-euro.ts';

/** Returns the same numbers in every run. */
function noise(i: number): number {
  const x = Math.sin(i * 78.233) * 43758.5453;
  return x - Math.floor(x) - 0.5;
}

describe('One Euro filter', () => {
  it('takes most of the jitter out of a value at rest', () => {
    const filter = new OneEuroFilter({ atRest: 1.5, withSpeed: 10 });
    const raw = Array.from({ length: 200 }, (_, i) => 0.01 * noise(i));
    const out = raw.map((value, i) => filter.filter([value], i * 40_000)[0] as number);
    const spread = (list: number[]) => Math.sqrt(list.reduce((sum, v) => sum + v * v, 0) / list.length);
    expect(spread(out.slice(20))).toBeLessThan(0.6 * spread(raw.slice(20)));
  });

  it('follows a quick move by less than half a frame', () => {
    const filter = new OneEuroFilter({ atRest: 2, withSpeed: 12 });
    let worst = 0;
    for (let i = 0; i < 100; i++) {
      const raw = 0.4 * Math.sin((2 * Math.PI * i) / 25);
      const out = filter.filter([raw], i * 40_000)[0] as number;
      if (i > 10) worst = Math.max(worst, Math.abs(out - raw));
    }
    // The largest step between two frames is 0.1.
    expect(worst).toBeLessThan(0.05);
  });

  it('takes uneven times as they are', () => {
    const times = [0, 40_000, 200_000, 210_000, 400_000];
    const filter = new OneEuroFilter({ atRest: 3, withSpeed: 0 });
    const out = times.map((time) => filter.filter([time === 0 ? 0 : 1], time)[0] as number);
    const share = (us: number) => 1 / (1 + 1e6 / (2 * Math.PI * 3 * us));
    let expected = 0;
    for (let i = 1; i < times.length; i++) {
      expected += share((times[i] as number) - (times[i - 1] as number)) * (1 - expected);
      expect(out[i]).toBeCloseTo(expected, 9);
    }
  });
});
