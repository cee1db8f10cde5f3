import { expect, test } from 'vitest';
import { createSteppedClock, STEP_MS } from './stepped-clock.ts';

/** Readings: what the clock showed, when it was asked, when it had answered. */
const STEPS: Record<
  string,
  { readings: [shown: number, asked: number, answered: number][]; steps: boolean[] }
> = {
  'one that goes as the process does': {
    readings: [
      [5_000, 0, 10],
      [6_000, 1_000, 1_010],
      [65_000, 60_000, 60_010],
    ],
    steps: [false, false, false],
  },
  'one that is late to answer': {
    readings: [
      [5_000, 0, 10],
      [9_000, 1_000, 5_000],
      [11_000, 6_000, 9_000],
      [15_000, 10_000, 10_010],
    ],
    steps: [false, false, false, false],
  },
  'one that is set by less than does harm': {
    readings: [
      [5_000, 0, 10],
      [7_900, 1_000, 1_010],
      [10_800, 2_000, 2_010],
    ],
    steps: [false, false, false],
  },
  'one that is set forwards': {
    readings: [
      [5_000, 0, 10],
      [8_100, 1_000, 1_010],
      [9_100, 2_000, 2_010],
    ],
    steps: [false, true, false],
  },
  'one that is set forwards behind a slow answer': {
    readings: [
      [5_000, 0, 10],
      [11_000, 1_000, 5_000],
      [16_000, 6_000, 6_010],
    ],
    steps: [false, false, true],
  },
  'one that is set back, and forwards again': {
    readings: [
      [50_000, 0, 10],
      [11_000, 1_000, 1_010],
      [52_000, 2_000, 2_010],
    ],
    steps: [false, false, true],
  },
};

test.each(Object.entries(STEPS))('%s', (_, { readings, steps }) => {
  const clock = createSteppedClock();
  expect(readings.map((reading) => clock.read(...reading))).toEqual(steps);
});

test('what it can show at most, and for how long it has not been set', () => {
  const clock = createSteppedClock();
  expect([clock.latest(0), clock.sinceStep(0)]).toEqual([undefined, undefined]);
  clock.read(5_000, 0, 10);
  expect(clock.latest(1_000)).toBe(6_000 + STEP_MS);
  clock.read(60_000, 1_000, 1_010);
  expect(clock.latest(2_000)).toBe(61_000 + STEP_MS);
  expect(clock.sinceStep(3_010)).toBe(2_000);
});
