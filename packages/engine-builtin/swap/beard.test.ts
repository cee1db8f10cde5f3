import { openPortraits } from '@semblance/testkit/engine-builtin/portraits';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import type { RgbImage } from '@semblance/vision/picture';
import { fillPolygon, plane } from '@semblance/vision/plane/plane';
import { beforeAll, describe, expect, it } from 'vitest';
import { beardOf, CHIN, CORNERS, MOUSTACHE } from './beard.ts';
import { convexHull } from './convex-hull.ts';
import { flatten } from './source-face.ts';

interface Flat {
  readonly image: RgbImage;
  readonly points: Float32Array;
  readonly width: number;
}

let astronaut: Flat;
let admiral: Flat;

beforeAll(async () => {
  const all = (await openPortraits(ASTRONAUT, ADMIRAL)).map(({ picture, face }) => ({
    image: { width: picture.width, height: picture.height, data: Float32Array.from(picture.data) },
    points: flatten(face.points),
    width: face.width,
  }));
  [astronaut, admiral] = all as [Flat, Flat];
});

/** Returns a face with all light on its moustache or chin changed. */
function painted(
  { image, points }: Flat,
  change: (r: number, g: number, b: number) => number[],
  groups: readonly (readonly number[])[] = [MOUSTACHE, CHIN],
): RgbImage {
  const mask = plane(image.width, image.height);
  for (const group of groups) fillPolygon(mask, convexHull(points, group));
  const data = image.data.slice();
  for (let i = 0; i < mask.data.length; i++) {
    if (!mask.data[i]) continue;
    data.set(change(data[i * 3] as number, data[i * 3 + 1] as number, data[i * 3 + 2] as number), i * 3);
  }
  return { ...image, data };
}

describe('beardOf', () => {
  it('finds none on shaven faces', () => {
    for (const { image, points, width } of [astronaut, admiral])
      expect(beardOf(image, points, width)).toBe(0);
  });

  it('finds dark and grey beards, and takes a light shadow for skin', () => {
    const look = (change: (r: number, g: number, b: number) => number[]) =>
      beardOf(painted(astronaut, change), astronaut.points, astronaut.width);
    expect(look((r, g, b) => [0.4 * r, 0.4 * g, 0.4 * b])).toBe(1);
    expect(look((_r, g) => [0.85 * g, 0.85 * g, 0.85 * g])).toBe(1);
    expect(look((r, g, b) => [0.92 * r, 0.92 * g, 0.92 * b])).toBe(0);
  });

  it('finds a moustache no darker than skin by its colour, over the corners of the mouth', () => {
    const { points, width } = astronaut;
    const fair = painted(astronaut, (r, g) => [g + 0.5 * (r - g), g, g], CORNERS);
    expect(beardOf(fair, points, width)).toBe(1);
  });

  it('finds red hair, which is much darker than the shadow of a nose', () => {
    const { points, width } = astronaut;
    const shade = painted(astronaut, (r, g, b) => [0.92 * r, 0.9 * g, 0.88 * b], [MOUSTACHE]);
    const hair = painted(astronaut, (r, g, b) => [0.7 * r, 0.54 * g, 0.45 * b], [MOUSTACHE]);
    expect(beardOf(shade, points, width)).toBe(0);
    expect(beardOf(hair, points, width)).toBeGreaterThan(0.5);
  });

  it('compares only skin that nothing covers', () => {
    const { points, width } = astronaut;
    const bearded = painted(astronaut, (r, g, b) => [0.4 * r, 0.4 * g, 0.4 * b]);
    // A dark hand lies on the left half of the face, another on all of its mouth.
    const [left, mouth] = [plane(bearded.width, bearded.height), plane(bearded.width, bearded.height)];
    const middle = points[4 * 2] as number;
    for (let i = 0; i < left.data.length; i++) left.data[i] = Number(i % left.width < middle);
    fillPolygon(mouth, convexHull(points, [...MOUSTACHE, ...CHIN]));
    const dark = (image: RgbImage, hand: typeof left): RgbImage => ({
      ...image,
      data: image.data.map((level, i) => (hand.data[Math.floor(i / 3)] ? 60 : level)),
    });
    expect(beardOf(dark(bearded, left), points, width, left)).toBe(1);
    expect(beardOf(dark(astronaut.image, mouth), points, width)).toBe(1);
    expect(beardOf(dark(astronaut.image, mouth), points, width, mouth)).toBe(0);
  });

  it('finds none where the face lies outside the picture', () => {
    const outside = astronaut.points.map((value) => value - 10_000);
    expect(beardOf(astronaut.image, outside, astronaut.width)).toBe(0);
  });
});
