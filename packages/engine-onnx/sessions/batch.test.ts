import { expect, it } from 'vitest';
import { itemsOf, join, split } from './batch.ts';
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
