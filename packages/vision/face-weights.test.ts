import { expect, it } from 'vitest';
import { likenessOf, readWeights } from './face-weights.ts';

it('weights for another number of values are refused', () => {
  expect(() => readWeights('./face-check-descriptor-weights.json', 1536)).toThrow(
    './face-check-descriptor-weights.json has 1024 weights, not 1536',
  );
});

it('the likeness is the bias and the weighted sum', () => {
  const weights = { bias: -1, weights: Float32Array.of(2, -0.5) };
  expect(likenessOf(weights, Float32Array.of(3, 4))).toBe(3);
});
