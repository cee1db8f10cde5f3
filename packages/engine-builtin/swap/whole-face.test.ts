import type { Picture } from '@semblance/engine-api/picture';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { LEFT_BROW, LEFT_EYE, RIGHT_BROW, RIGHT_EYE } from '@semblance/vision/face-regions';
import { openSession } from '@semblance/vision/models/session';
import type { RgbImage } from '@semblance/vision/picture';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { prepareSource, type SourceFace } from './source-face.ts';

let portrait: Picture;
let face: Face;
let plain: SourceFace;

beforeAll(async () => {
  const { data, info } = await sharp(ASTRONAUT).removeAlpha().raw().toBuffer({ resolveWithObject: true });
  portrait = { width: info.width, height: info.height, channels: 3, data: new Uint8Array(data) };
  const finder = new FaceFinder({
    blazeface: await openSession('blazeface'),
    facemesh: await openSession('facemesh'),
  });
  [face] = (await finder.find(portrait, () => undefined)) as [Face];
  plain = prepareSource(portrait, face, face.width);
});

/** Returns the portrait with the red, green and blue of each pixel multiplied by factors. */
function changed(factors: (x: number, y: number) => readonly [number, number, number]): Picture {
  const data = portrait.data.slice();
  for (let i = 0; i < data.length; i += 3) {
    const pixel = i / 3;
    const by = factors(pixel % portrait.width, Math.floor(pixel / portrait.width));
    for (const c of [0, 1, 2] as const) data[i + c] = Math.min(255, (data[i + c] as number) * by[c]);
  }
  return { ...portrait, data };
}

/** Returns the mean red, green and blue of a patch around some mesh points. */
function around(image: RgbImage, points: Float32Array, indices: readonly number[]): [number, number, number] {
  const sum: [number, number, number] = [0, 0, 0];
  for (const index of indices) {
    const x = Math.floor(points[index * 3] as number);
    const y = Math.floor(points[index * 3 + 1] as number);
    for (const c of [0, 1, 2] as const)
      sum[c] += (image.data[(y * image.width + x) * 3 + c] as number) / indices.length;
  }
  return sum;
}

/** Points on bare cheeks, the person's right and left. */
const RIGHT_CHEEK = [50, 101, 118, 117, 205, 187, 123];
const LEFT_CHEEK = [280, 330, 347, 346, 425, 411, 352];

const level = ([r, g, b]: readonly number[]): number =>
  0.299 * (r as number) + 0.587 * (g as number) + 0.114 * (b as number);

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

describe('a source by itself', () => {
  it('has one colour of skin though blue light falls on a side of it', () => {
    const nose = face.points[4 * 3] as number;
    const lit = prepareSource(
      changed((x) => (x > nose ? [0.8, 0.95, 1.45] : [1, 1, 1])),
      face,
      face.width,
    );
    const blueness = ({ image, points }: SourceFace, cheek: readonly number[]): number => {
      const [, g, b] = around(image, points, cheek);
      return b / g;
    };
    const natural = blueness(plain, LEFT_CHEEK) / blueness(plain, RIGHT_CHEEK);
    // With the light it would be 1.5.
    const difference = blueness(lit, LEFT_CHEEK) / blueness(lit, RIGHT_CHEEK) / natural;
    expect(difference).toBeLessThan(1.2);
    expect(difference).toBeGreaterThan(0.9);
  });

  it('shows its other side where a curtain of dark strands hangs over an eye', () => {
    const [left, top] = [face.points[168 * 3] as number, face.points[10 * 3 + 1] as number];
    const bottom = face.points[205 * 3 + 1] as number;
    // Strands that are as wide as the gaps between them.
    const strands = (x: number, y: number): readonly [number, number, number] => {
      if (x < left + 0.06 * face.width || y < top || y > bottom) return [1, 1, 1];
      return Math.floor(x / 2) % 2 === 0 ? [0.2, 0.2, 0.2] : [0.6, 0.6, 0.6];
    };
    const hung = prepareSource(changed(strands), face, face.width);
    const eye = [...LEFT_EYE, ...LEFT_BROW];
    const other = [...RIGHT_EYE, ...RIGHT_BROW];
    const asOther = level(around(hung.image, hung.points, other));
    // Under the strands it would be 0.4 times as bright.
    expect(level(around(hung.image, hung.points, eye)) / asOther).toBeGreaterThan(0.75);
    expect(level(around(hung.image, hung.points, LEFT_CHEEK.slice(0, 4)))).toBeGreaterThan(
      0.75 * level(around(hung.image, hung.points, RIGHT_CHEEK.slice(0, 4))),
    );
    // Includes the middle of the eye, where no skin is visible.
    const inner = (points: readonly number[]): number => {
      const [x, y] = [0, 1].map((k) => mean(points.map((index) => hung.points[index * 3 + k] as number)));
      const near = [-2, -1, 0, 1, 2].map((dx) => [(x as number) + dx, y as number, 0]);
      return level(around(hung.image, Float32Array.from(near.flat()), [0, 1, 2, 3, 4]));
    };
    expect(inner(LEFT_EYE) / inner(RIGHT_EYE)).toBeGreaterThan(0.75);
    expect(asOther).toBeCloseTo(level(around(plain.image, plain.points, other)), -0.5);
  });

  it.each([
    [
      'a shadow over both eyes',
      (_: number, y: number): number => (y < (face.points[195 * 3 + 1] as number) ? 0.5 : 1),
    ],
    [
      'light a little from one side',
      (x: number): number => 1 - 0.12 * Math.tanh((x - (face.points[4 * 3] as number)) / (0.3 * face.width)),
    ],
    [
      'a mole',
      (x: number, y: number): number =>
        Math.hypot(x - (face.points[50 * 3] as number), y - (face.points[50 * 3 + 1] as number)) <
        0.025 * face.width
          ? 0.3
          : 1,
    ],
  ])('keeps %s', (_, factor) => {
    const kept = prepareSource(
      changed((x, y) => [factor(x, y), factor(x, y), factor(x, y)]),
      face,
      face.width,
    );
    for (const index of [...RIGHT_EYE, ...LEFT_EYE, 50, 280]) {
      const by = factor(face.points[index * 3] as number, face.points[index * 3 + 1] as number);
      const was = level(around(plain.image, plain.points, [index]));
      expect(
        Math.abs(level(around(kept.image, kept.points, [index])) - by * was),
        `point ${index}`,
      ).toBeLessThan(15);
    }
  });
});
