import { type Plane, plane } from '@semblance/vision/plane/plane';
import { expect, it } from 'vitest';
import { masksOf } from './scale-masks.ts';

const FACE_WIDTH = 120;
const SIZE = 80;

/** Returns a plane that is 1 on the opening of an eye in its middle, with its lids. */
function opening(): Plane {
  const out = plane(SIZE, SIZE);
  for (let y = 34; y < 46; y++) out.data.fill(1, y * SIZE + 29, y * SIZE + 51);
  return out;
}

/** Returns the share of the source in the middle at each coarse scale. */
function middle(eyes: Plane): number[] {
  return masksOf(opening(), eyes, FACE_WIDTH).coarse.map(
    ({ data, width, height }) => data[(height / 2) * width + width / 2] as number,
  );
}

it("an iris is wholly the source's, and light that is coarser than it the target's", () => {
  const [fine, iris, wide, light] = middle(opening()) as [number, number, number, number];
  expect(Math.min(fine, iris, wide)).toBe(1);
  expect(light).toBeLessThan(0.5);
});

it('other features give way at each scale by their size', () => {
  const [fine, iris, wide, light] = middle(plane(SIZE, SIZE)) as [number, number, number, number];
  expect(fine).toBeGreaterThan(iris);
  expect(iris).toBeGreaterThan(wide);
  expect(wide).toBeGreaterThan(light);
  expect(wide).toBeLessThan(0.8);
});
