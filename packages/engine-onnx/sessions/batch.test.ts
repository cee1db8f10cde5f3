import { expect, it } from 'vitest';
import { FIXED_SIZES, itemsOf, itemsOfRun, join, pad, paddedSize, split } from './batch.ts';
import type { FloatTensors } from './protocol.ts';

const one: FloatTensors = { a: { data: Float32Array.of(1, 2), dims: [1, 2] } };
const two: FloatTensors = { a: { data: Float32Array.of(3, 4, 5, 6), dims: [2, 2] } };

it('puts requests together and takes them apart again', () => {
  const both = join([one, two]);
  expect(both).toEqual({ a: { data: Float32Array.of(1, 2, 3, 4, 5, 6), dims: [3, 2] } });
  expect([one, two].map(itemsOf)).toEqual([1, 2]);
  expect(split(both, [1, 2])).toEqual([one, two]);
});

it('gives nobody items that are not theirs when fewer came out than went in', () => {
  const shrunk: FloatTensors = { a: { data: Float32Array.of(1, 2), dims: [1, 2] } };
  expect(() => split(shrunk, [1, 1])).toThrow('a has the shape [1, 2] for 2 items');
});

it('fills a run up with copies of its last item, and gives them to nobody', () => {
  const both = join([one, two]);
  expect(pad(both, 3)).toEqual(both);
  const padded = pad(both, 4);
  expect(padded).toEqual({ a: { data: Float32Array.of(1, 2, 3, 4, 5, 6, 5, 6), dims: [4, 2] } });
  expect(split(padded, [1, 2], 1)).toEqual([one, two]);
  expect(() => split(both, [1, 2], 1)).toThrow('a has the shape [3, 2] for 4 items');
});

it.each([
  // Waiting items, those in the next run on a GPU, and the size of that run.
  [1, 1, 1],
  [2, 1, 1],
  [3, 3, 4],
  [4, 4, 4],
  [5, 4, 4],
  [6, 6, 8],
  [7, 7, 8],
  [8, 8, 8],
  [30, 8, 8],
])('of %i waiting items takes %i into a run of %i', (waiting, items, size) => {
  expect(itemsOfRun(waiting, FIXED_SIZES)).toBe(items);
  expect(paddedSize(items, FIXED_SIZES)).toBe(size);
  // Where sizes are not fixed, nothing is padded.
  expect(itemsOfRun(waiting, undefined)).toBe(Math.min(waiting, 8));
  expect(paddedSize(waiting, undefined)).toBe(waiting);
});

it('keeps to the sizes that fit on the device', () => {
  expect([1, 3, 5, 9].map((waiting) => itemsOfRun(waiting, [1, 4]))).toEqual([1, 3, 4, 4]);
  expect([1, 3, 9].map((waiting) => itemsOfRun(waiting, [1]))).toEqual([1, 1, 1]);
});
