import type { RgbImage } from '@semblance/vision/picture';
import { describe, expect, it } from 'vitest';
import { joinPixels, splitPixels } from './pixel-boost.ts';

/** Each sample is its own index. */
function numbered(side: number): RgbImage {
  return { width: side, height: side, data: Float32Array.from({ length: side * side * 3 }, (_, i) => i) };
}

describe('pixel boost', () => {
  it('takes every second pixel of every second row', () => {
    const parts = splitPixels(numbered(4), 2);
    const reds = parts.map(({ data }) => [...data].filter((_, i) => i % 3 === 0).map((value) => value / 3));
    // Pixels are numbered by row: 0 to 3 in the first.
    expect(reds).toEqual([
      [0, 2, 8, 10],
      [1, 3, 9, 11],
      [4, 6, 12, 14],
      [5, 7, 13, 15],
    ]);
  });

  it.each([1, 2, 3, 4])('joins what it split by %i', (factor) => {
    const image = numbered(12);
    const parts = splitPixels(image, factor);
    expect(parts).toHaveLength(factor ** 2);
    expect(parts[0]?.width).toBe(12 / factor);
    expect(joinPixels(parts)).toEqual(image);
  });
});
