import type { RgbImage } from '@semblance/vision/picture';
import { fillPolygon, type Plane, plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { findCast, takeOffCast } from './colour-cast.ts';
import { luma } from './light.ts';

const SIZE = 100;
type Rgb = readonly [number, number, number];
const SKIN: Rgb = [200, 150, 120];
const LIPS: Rgb = [170, 90, 90];

function box(left: number, top: number, right: number, bottom: number): Plane {
  const out = plane(SIZE, SIZE);
  fillPolygon(out, [left, top, right, top, right, bottom, left, bottom]);
  return out;
}

const lips = box(35, 70, 65, 80);
const skin = box(10, 10, 90, 90);
for (let i = 0; i < skin.data.length; i++) if (lips.data[i]) skin.data[i] = 0;

/** A face of one colour with lips of another, under light that varies by place. */
function lit(light: (x: number, y: number) => Rgb): RgbImage {
  const data = new Float32Array(SIZE * SIZE * 3);
  for (let i = 0; i < SIZE * SIZE; i++) {
    const colour = light(i % SIZE, Math.floor(i / SIZE));
    for (const c of [0, 1, 2] as const)
      data[i * 3 + c] = ((lips.data[i] ? LIPS : SKIN)[c] as number) * (colour[c] as number);
  }
  return { width: SIZE, height: SIZE, data };
}

function at(image: RgbImage, x: number, y: number): Rgb {
  const i = (y * SIZE + x) * 3;
  return [image.data[i] as number, image.data[i + 1] as number, image.data[i + 2] as number];
}

const blueness = ([, g, b]: Rgb): number => b / g;
/** Blue light on the right half of a face. */
const halfBlue = (x: number): Rgb => (x > 50 ? [0.75, 0.9, 1.6] : [1, 1, 1]);

function evened(image: RgbImage): RgbImage {
  const cast = findCast(image, { skin, lips }, SIZE);
  if (!cast) throw new Error('none was found');
  const even = { ...image, data: image.data.slice() };
  takeOffCast(even, cast, 1);
  return even;
}

describe('coloured light on a part of a face', () => {
  it('is taken off the skin, whose brightness stays', () => {
    const image = lit(halfBlue);
    const even = evened(image);
    expect(blueness(at(image, 80, 30)) / blueness(at(image, 20, 30))).toBeGreaterThan(1.7);
    expect(blueness(at(even, 80, 30)) / blueness(at(even, 20, 30))).toBeLessThan(1.08);
    for (const x of [20, 80]) expect(luma(...at(even, x, 30))).toBeCloseTo(luma(...at(image, x, 30)), -0.5);
  });

  it('is taken off the lips, which keep a colour of their own', () => {
    const image = lit(halfBlue);
    const even = evened(image);
    expect(blueness(at(image, 62, 75)) / blueness(at(image, 38, 75))).toBeGreaterThan(1.7);
    expect(blueness(at(even, 62, 75)) / blueness(at(even, 38, 75))).toBeLessThan(1.15);
    const redness = ([r, g]: Rgb): number => r / g;
    expect(redness(at(even, 38, 75))).toBeGreaterThan(1.2 * redness(at(even, 20, 75)));
  });

  it('is found on a finer picture of the same face as well', () => {
    const coarse = lit(halfBlue);
    const data = new Float32Array(4 * SIZE * SIZE * 3);
    for (let y = 0; y < 2 * SIZE; y++)
      for (let x = 0; x < 2 * SIZE; x++) data.set(at(coarse, x >> 1, y >> 1), (y * 2 * SIZE + x) * 3);
    const cast = findCast(coarse, { skin, lips }, SIZE);
    if (!cast) throw new Error('none was found');
    const even = { width: 2 * SIZE, height: 2 * SIZE, data };
    takeOffCast(even, cast, 0.5);
    const o = (60 * 2 * SIZE + 160) * 3;
    const right: Rgb = [even.data[o] as number, even.data[o + 1] as number, even.data[o + 2] as number];
    expect(blueness(right) / blueness(at(coarse, 20, 30))).toBeLessThan(1.08);
  });

  it('is none where all of a face has the same, and where cheeks are redder than the rest', () => {
    expect(
      findCast(
        lit(() => [0.6, 0.9, 1.6]),
        { skin, lips },
        SIZE,
      ),
    ).toBeUndefined();
    const blush = (x: number, y: number): Rgb => (Math.hypot(x - 25, y - 55) < 12 ? [1.08, 1, 1] : [1, 1, 1]);
    expect(findCast(lit(blush), { skin, lips }, SIZE)).toBeUndefined();
  });

  it('is not guessed from a few pixels, nor from none', () => {
    expect(findCast(lit(halfBlue), { skin: box(47, 47, 53, 53), lips }, SIZE)).toBeUndefined();
    expect(findCast(lit(halfBlue), { skin: plane(SIZE, SIZE), lips }, SIZE)).toBeUndefined();
  });
});
