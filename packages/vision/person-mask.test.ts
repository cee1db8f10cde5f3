import { describe, expect, it } from 'vitest';
import type { PersonMask } from './person.ts';
import { maskInPicture } from './person-mask.ts';
import { squareCrop, toCrop } from './picture.ts';

/** Returns a mask that is `inside` where the function of its unit square is true. */
function maskOf(
  side: number,
  region: PersonMask['region'],
  inside: (u: number, v: number) => number,
): PersonMask {
  const data = Uint8Array.from({ length: side * side }, (_, i) =>
    Math.round(255 * inside(((i % side) + 0.5) / side, (Math.floor(i / side) + 0.5) / side)),
  );
  return { data, side, region };
}

describe('a mask laid into its picture', () => {
  it.each([
    { x: 60, y: 50, size: 80, angle: 0 },
    { x: 60, y: 50, size: 60, angle: 0.4 },
    { x: 10, y: 95, size: 90, angle: -2.5 },
  ])('lies where its square lies: %o', (region) => {
    const [width, height] = [120, 100];
    const ramp = maskOf(32, region, (u, v) => 0.2 + 0.5 * u + 0.3 * v);
    const out = maskInPicture(ramp, width, height);
    const crop = squareCrop(region, region.size, region.angle, 1);
    let seen = 0;
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const { x: u, y: v } = toCrop(crop, x + 0.5, y + 0.5);
        const value = out[y * width + x] as number;
        const margin = Math.min(u, v, 1 - u, 1 - v);
        if (margin < -0.01) expect(value).toBe(0);
        // The outermost half mask pixel is repeated at the rim.
        if (margin > 1 / 64) {
          seen++;
          expect(Math.abs(value - 255 * (0.2 + 0.5 * u + 0.3 * v))).toBeLessThan(2);
        }
      }
    }
    expect(seen).toBeGreaterThan(500);
  });

  it('is empty when its square lies outside', () => {
    const mask = maskOf(8, { x: -100, y: 40, size: 60, angle: 0.2 }, () => 1);
    expect(maskInPicture(mask, 50, 50).every((value) => value === 0)).toBe(true);
  });
});
