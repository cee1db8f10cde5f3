import { describe, expect, it } from 'vitest';
import { Allowance } from './allowance.ts';

/** One unit per millisecond, a burst of 2,000 at the start and of 8,000 after a silence. */
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

describe('what came due while the sender was not read', () => {
  /** As `make`, and up to ten seconds unread. */
  const patient = () => new Allowance({ perMs: 1, start: 2_000, most: 8_000 }, 10_000);

  it('is not lost at the most', () => {
    const allowance = patient();
    allowance.take(0, 0);
    allowance.unread(9_000, 9_000);
    expect(allowance.take(11_000, 9_000)).toBe(true);
    expect(allowance.take(1, 9_000)).toBe(false);
  });

  it('is that of the pause alone: what came due before is', () => {
    const allowance = patient();
    allowance.take(0, 0);
    allowance.unread(9_000, 60_000);
    expect(allowance.take(17_001, 60_000)).toBe(false);
    expect(allowance.take(17_000, 60_000)).toBe(true);
  });

  it('counts once, however often it is told', () => {
    const allowance = patient();
    allowance.take(2_000, 0);
    for (let at = 9_000; at < 9_100; at++) allowance.unread(9_000, at);
    expect(allowance.take(9_100, 9_099)).toBe(false);
    expect(allowance.take(9_000, 9_099)).toBe(true);
  });

  it('is bounded, over many pauses, too', () => {
    const allowance = patient();
    allowance.take(0, 0);
    for (let n = 1; n <= 20; n++) allowance.unread(5_000, n * 5_000);
    expect(allowance.take(18_001, 100_000)).toBe(false);
    expect(allowance.take(18_000, 100_000)).toBe(true);
  });

  it('is there for a sender whose first message was not read', () => {
    const allowance = patient();
    allowance.unread(9_000, 50_000);
    expect(allowance.take(11_000, 50_000)).toBe(true);
  });

  it('waits for what is not made up for without it', () => {
    const allowance = patient();
    allowance.take(0, 0);
    allowance.unread(10_000, 10_000);
    // One and a half times real time, as a slow network delivers it.
    let at = 10_000;
    for (let read = 0; read < 15_000; read += 1_500, at += 1_000)
      expect(allowance.take(1_500, at)).toBe(true);
    expect(allowance.take(7_000, at), 'all that came due, and the start').toBe(true);
    expect(allowance.take(1, at)).toBe(false);
  });

  it('never lets more through than came due since the beginning, and the start', () => {
    const allowance = patient();
    let [taken, at] = [0, 0];
    allowance.take(0, at);
    for (let n = 1; n < 3_000; n++) {
      at += (n * 7919) % 1_300;
      if (n % 3 === 0) allowance.unread((n * 104_729) % 20_000, at);
      const units = (n * 31_337) % 4_000;
      if (allowance.take(units, at)) taken += units;
      expect(taken).toBeLessThanOrEqual(2_000 + at);
    }
    expect(taken).toBeGreaterThan(at / 2);
  });
});
