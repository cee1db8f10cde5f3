import { expect, it } from 'vitest';
import { select } from './select.ts';

/** Returns shuffled numbers, equal in every run (Lehmer's generator). */
function shuffled(length: number, distinct: number): Float64Array {
  let state = 12345;
  return Float64Array.from({ length }, () => {
    state = (state * 48271) % 2147483647;
    return (state % distinct) - distinct / 3;
  });
}

it.each([
  [1, 10],
  [2, 10],
  [101, 5],
  [1200, 1_000_000],
])('finds the value of every tenth rank of %i numbers', (length, distinct) => {
  const values = shuffled(length, distinct);
  const sorted = values.toSorted();
  for (let rank = 0; rank < length; rank += Math.max(1, Math.floor(length / 10))) {
    expect(select(values.slice(), rank)).toBe(sorted[rank]);
  }
  expect(select(sorted.slice(), length - 1)).toBe(sorted[length - 1]);
  expect(select(sorted.toReversed(), 0)).toBe(sorted[0]);
});

it('gives 0 for nothing', () => {
  expect(select(new Float32Array(0), 0)).toBe(0);
});
