import type { RgbImage } from '@semblance/vision/picture';
import { describe, expect, it } from 'vitest';
import { resized } from './resize.ts';

/** Red rises to the right, green downwards. */
function slope(width: number, height: number): RgbImage {
  const data = new Float32Array(width * height * 3);
  for (let i = 0; i < width * height; i++)
    data.set([(100 * ((i % width) + 0.5)) / width, (100 * (Math.floor(i / width) + 0.5)) / height, 7], i * 3);
  return { width, height, data };
}

describe('resized', () => {
  it.each([
    [96, 130, 96, 96],
    [60, 40, 96, 96],
    [96, 96, 96, 131],
  ])('keeps a slope from %i × %i to %i × %i', (width, height, toWidth, toHeight) => {
    const out = resized(slope(width, height), toWidth, toHeight);
    const wanted = slope(toWidth, toHeight);
    expect(out.width).toBe(toWidth);
    for (let y = 2; y < toHeight - 2; y++)
      for (let x = 2; x < toWidth - 2; x++)
        for (let c = 0; c < 3; c++) {
          const i = (y * toWidth + x) * 3 + c;
          expect(Math.abs((out.data[i] as number) - (wanted.data[i] as number))).toBeLessThan(0.1);
        }
  });

  it('averages what a new pixel covers', () => {
    const data = Float32Array.from({ length: 8 * 8 * 3 }, (_, i) => (Math.floor(i / 3) % 2 === 0 ? 0 : 80));
    const out = resized({ width: 8, height: 8, data }, 4, 4);
    for (const value of out.data) expect(value).toBeCloseTo(40, 3);
  });
});
