import { expect, it } from 'vitest';
import { blur, distanceInside, grow, type Plane, plane } from './plane.ts';
import { withScratch } from './scratch.ts';

const WIDTH = 23;
const HEIGHT = 17;

/** Returns areas of several shapes, some of which touch the border. */
function areas(): Plane {
  const mask = plane(WIDTH, HEIGHT);
  for (let i = 0; i < mask.data.length; i++) {
    const [x, y] = [i % WIDTH, Math.floor(i / WIDTH)];
    const inside = Math.hypot(x - 6, y - 7) < 4 || (x > 18 && y > 13) || (x === 14 && y === 3);
    mask.data[i] = inside ? 0.5 : 0.49;
  }
  return mask;
}

it.each([0, 0.4, 1, 1.4, 2.7, 5, 30])('grows and shrinks areas by their distances: radius %f', (radius) => {
  const mask = areas();
  const around = { ...mask, data: mask.data.map((value) => 1 - value - 0.005) };
  const [outside, inside] = [distanceInside(around, false), distanceInside(mask, false)];
  expect([...grow(mask, radius).data]).toEqual([...outside.data].map((d) => (d <= radius ? 1 : 0)));
  if (radius === 0) return;
  expect([...grow(mask, -radius).data]).toEqual([...inside.data].map((d) => (d > radius ? 1 : 0)));
});

it('grows nothing where there is nothing, and shrinks nothing that fills the plane', () => {
  expect(grow(plane(5, 4), 3).data).toEqual(new Float32Array(20));
  expect(grow(plane(5, 4, 1), -3).data).toEqual(new Float32Array(20).fill(1));
});

it('blurs into a plane of its own, whatever its memory held before', () => {
  const sharp = areas();
  const before = sharp.data.slice();
  const [small, wide] = [blur(sharp, 0.2).data.slice(), blur(sharp, 2).data.slice()];
  withScratch(() => {
    plane(WIDTH, 4 * HEIGHT, 7);
  });
  withScratch(() => {
    expect(blur(sharp, 0.2).data).toEqual(small);
    expect(blur(sharp, 2).data).toEqual(wide);
  });
  expect(small).toEqual(before);
  expect(sharp.data).toEqual(before);
});
