import { POINTS } from '@semblance/vision/face-mesh';
import { LIPS_INNER, LIPS_OUTER } from '@semblance/vision/face-regions';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import { expect, it } from 'vitest';
import { mouthInside } from './mouth-inside.ts';

const FACE_WIDTH = 200;

/**
 * Returns the height of the part that stays the target's, in pixels, where a mouth is open by `opening` and that of the
 * source by `other`.
 */
function heightOf(opening: number, other = 0): number {
  const mouth = plane(120, 80);
  const points = new Float32Array(POINTS * 2);
  for (const [j, index] of LIPS_INNER.entries()) {
    const side = j % 10 === 0 ? 0 : j < 10 ? 0.5 : -0.5;
    points.set([30 + 6 * (j <= 10 ? j : 20 - j), 40 + side * opening], index * 2);
  }
  points.set([28, 40], LIPS_OUTER[0] * 2);
  points.set([92, 40], LIPS_OUTER[10] * 2);
  points.set([60, 40 - opening / 2], 13 * 2);
  points.set([60, 40 + opening / 2], 14 * 2);
  for (let y = 40 - opening / 2; y < 40 + opening / 2; y++) mouth.data.fill(1, y * 120 + 30, y * 120 + 90);
  const inside: Plane = mouthInside(mouth, points, FACE_WIDTH, other);
  let sum = 0;
  for (let y = 0; y < 80; y++) sum += inside.data[y * 120 + 60] as number;
  return sum;
}

it('the inside of an open mouth reaches beyond its mesh, by 0.014 of the face width and 0.4 of the opening', () => {
  // Whole pixels on both sides.
  expect(heightOf(20)).toBeCloseTo(20 + 2 * 2, 3);
  expect(heightOf(4)).toBeCloseTo(4 + 2 * 1, 1);
});

it('the line between closed lips stays where the source opens its mouth, by 0.012 of the face width on both sides', () => {
  // Whole pixels on both sides.
  expect(heightOf(0, 20)).toBeCloseTo(2 * 2, 3);
  // A source that is hardly more open leaves less.
  expect(heightOf(0, 4)).toBeCloseTo(2 * 1, 1);
  // Of an open mouth more stays than that.
  expect(heightOf(20, 40)).toBeCloseTo(heightOf(20), 5);
});

it('closed lips have no inside', () => {
  expect(heightOf(0)).toBe(0);
});
