import { describe, expect, it } from 'vitest';
import { choosePairs } from './pairs.ts';
import type { Traits } from './portrait.ts';

/** Forty portraits in which each trait varies by itself. */
const portraits = Array.from({ length: 40 }, (_, i) => ({
  label: `p${i}`,
  traits: {
    lightness: 30 + ((i * 17) % 50),
    width: 100 + ((i * 29) % 90),
    opening: (i * 7) % 5 === 0 ? 0.2 : 0.01,
    teeth: (i * 7) % 5 === 0 ? 0.6 : 0,
    yaw: ((i % 7) - 3) / 10,
    glasses: i % 4 === 0,
  } satisfies Traits,
}));
const labels = (pairs: ReturnType<typeof choosePairs<(typeof portraits)[number]>>): string[] =>
  pairs.map(({ source, target }) => `${source.label} > ${target.label}`);

describe('a round of pairs', () => {
  const pairs = choosePairs(portraits, portraits.length, 7);
  const all = portraits.map(({ label }) => label).sort();

  it('has each portrait once as a source and once as a target, never of itself', () => {
    expect(pairs.map(({ source }) => source.label).sort()).toEqual(all);
    expect(pairs.map(({ target }) => target.label).sort()).toEqual(all);
    expect(pairs.every(({ source, target }) => source !== target)).toBe(true);
  });

  it('is the same for the same seed, and another for another', () => {
    expect(labels(choosePairs(portraits, portraits.length, 7))).toEqual(labels(pairs));
    expect(labels(choosePairs(portraits, portraits.length, 8))).not.toEqual(labels(pairs));
  });

  it('crosses light and dark, and glasses, in every way', () => {
    const crossed = (trait: (traits: Traits) => boolean): Set<string> =>
      new Set(pairs.map(({ source, target }) => `${trait(source.traits)} ${trait(target.traits)}`));
    expect(crossed(({ lightness }) => lightness > 50).size).toBe(4);
    expect(crossed(({ glasses }) => glasses).size).toBe(4);
    expect(crossed(({ teeth }) => teeth > 0.25).size).toBe(4);
  });
});

it('several rounds never repeat a pair', () => {
  const pairs = labels(choosePairs(portraits, 130, 3));
  expect(pairs).toHaveLength(130);
  expect(new Set(pairs).size).toBe(130);
});

it('two portraits are paired both ways, and one cannot be', () => {
  expect(labels(choosePairs(portraits.slice(0, 2), 2, 1)).sort()).toEqual(['p0 > p1', 'p1 > p0']);
  expect(() => choosePairs(portraits.slice(0, 1), 1, 1)).toThrow(RangeError);
  expect(() => choosePairs(portraits.slice(0, 5), 15, 1)).toThrow(RangeError);
});
