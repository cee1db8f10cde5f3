import { seeded } from '@semblance/testkit/sound/random';
import { describe, expect, it } from 'vitest';
import { type Example, trainClassifier } from './classifier.ts';

function examples(count: number, kind: string, face: boolean, middle: readonly number[]): Example[] {
  const random = seeded(count);
  return Array.from({ length: count }, () => ({
    features: Float32Array.from(middle, (value) => value + random() - 0.5),
    face,
    kind,
  }));
}

describe('trainClassifier', () => {
  it('tells faces from others, for features of any range', () => {
    const faces = examples(40, 'portraits', true, [1000.4, 3, 0]);
    const others = examples(60, 'animals', false, [1000, 3.6, 0]);
    const { bias, weights } = trainClassifier([...faces, ...others]);
    const right = [...faces, ...others].filter(({ features, face }) => {
      return features.reduce((sum, v, i) => sum + v * (weights[i] as number), bias) > 0 === face;
    });
    expect(right.length).toBeGreaterThan(85);
    expect(weights[0]).toBeGreaterThan(0);
    expect(weights[1]).toBeLessThan(0);
  });

  it('gives a kind of few examples the weight of one of many', () => {
    const many = examples(200, 'portraits', true, [1, 0]);
    const few = examples(5, 'paintings', true, [0, 1]);
    const { weights } = trainClassifier([...many, ...few, ...examples(100, 'others', false, [0, 0])]);
    expect((weights[1] as number) / (weights[0] as number)).toBeGreaterThan(0.5);
  });
});
