import { expect, it } from 'vitest';
import { Allowance } from './allowance.ts';

/** One unit a millisecond, 2,000 at once at the beginning, 8,000 after a silence. */
const make = () => new Allowance({ perMs: 1, start: 2_000, most: 8_000 });

it.each<[string, [at: number, units: number][], boolean[]]>([
  [
    'what comes at the beginning',
    [
      [0, 2_000],
      [0, 1],
    ],
    [true, false],
  ],
  ['real time, for ever', Array.from({ length: 200 }, (_, i) => [i * 1_000, 1_000]), Array(200).fill(true)],
  [
    'a silence is made up for',
    [
      [0, 0],
      [5_000, 7_000],
      [5_000, 1],
    ],
    [true, true, false],
  ],
  [
    'but not more than its most',
    [
      [0, 0],
      [60_000, 8_000],
      [60_000, 1],
    ],
    [true, true, false],
  ],
  [
    'what was refused took nothing',
    [
      [0, 2_001],
      [0, 2_000],
    ],
    [false, true],
  ],
  [
    'the time begins with the first message',
    [
      [99_999, 2_000],
      [99_999, 1],
    ],
    [true, false],
  ],
])('%s', (_name, messages, taken) => {
  const allowance = make();
  expect(messages.map(([at, units]) => allowance.take(units, at))).toEqual(taken);
});

it('a sender that is a fifth too fast is found out', () => {
  const allowance = make();
  let at = 0;
  while (allowance.take(240, at)) at += 200;
  expect(at).toBeGreaterThan(8_000);
  expect(at).toBeLessThan(10_000);
});
