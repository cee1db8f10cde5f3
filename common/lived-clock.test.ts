import { afterEach, expect, it, vi } from 'vitest';
import { createLivedClock } from './lived-clock.ts';

afterEach(() => void vi.restoreAllMocks());

it('goes on with the time that its process lives through, and stands still with it', () => {
  let real = 1_000;
  vi.spyOn(performance, 'now').mockImplementation(() => real);
  const clock = createLivedClock();
  const pass = (ms: number, looks = true) => {
    for (const end = real + ms; real < end; ) {
      real = Math.min(end, real + clock.everyMs);
      if (looks) clock.look();
    }
    return clock.now();
  };
  expect(pass(10_000)).toBe(11_000);
  // At most half a second counts, with or without readings, before and after a late reading.
  expect(pass(400, false)).toBe(11_400);
  expect(pass(5_600, false)).toBe(11_500);
  clock.look();
  expect(clock.now()).toBe(11_500);
  expect(pass(3_000)).toBe(14_500);
  // Repeated `now` without readings does not advance the clock further.
  expect([1, 2, 3].map(() => pass(1_000, false))).toEqual([15_000, 15_000, 15_000]);
  clock.look();
  expect(pass(250)).toBe(15_250);
});
