import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { beforeAll, expect, it } from 'vitest';
import { coloursOf, withLipEdge } from './lip-edge.ts';

let portrait: Portrait;
/** The portrait, in whose open mouth teeth reach further down than its mesh. */
let smile: Float32Array;
/** Distance from the mesh's edge of the lower lip down to where the teeth end, in face widths. */
const BELOW = 0.02;

beforeAll(async () => {
  [portrait] = (await openPortraits(ASTRONAUT)) as [Portrait];
  const { picture, face } = portrait;
  smile = Float32Array.from(picture.data);
  const [left, right] = [face.points[78 * 3] as number, face.points[308 * 3] as number];
  for (let x = Math.ceil(left); x < right; x++) {
    const along = (x - left) / (right - left);
    const deep = 4 * along * (1 - along);
    const edge = edgeAt(x);
    for (let y = Math.round(edge - 0.05 * deep * face.width); y < edge + BELOW * deep * face.width; y++)
      smile.set([235, 230, 215], (y * picture.width + x) * 3);
  }
});

const LOWER = [78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308];

/** Returns y of the mesh's lower inner lip at a column of the picture. */
function edgeAt(x: number): number {
  const { points } = portrait.face;
  const k = LOWER.findIndex((index, j) => j > 0 && x <= (points[index * 3] as number));
  const [a, b] = [LOWER[k - 1] as number, LOWER[k] as number];
  const t = (x - (points[a * 3] as number)) / ((points[b * 3] as number) - (points[a * 3] as number));
  return (points[a * 3 + 1] as number) * (1 - t) + (points[b * 3 + 1] as number) * t;
}

const withEdge = (data: Float32Array) =>
  withLipEdge(portrait.face.points, portrait.face.width, coloursOf({ ...portrait.picture, data }));

it('the inner edge of a lower lip moves to where the teeth end', () => {
  const { points, width } = portrait.face;
  const moved = withEdge(smile);
  const by = (index: number): number =>
    ((moved[index * 3 + 1] as number) - (points[index * 3 + 1] as number)) / width;
  expect(by(14)).toBeGreaterThan(0.7 * BELOW);
  expect(by(14)).toBeLessThan(1.4 * BELOW);
  // The rest of the lip moves less, its outer edge and the upper lip not at all.
  expect(by(16)).toBeGreaterThan(0);
  expect(by(16)).toBeLessThan(by(14));
  expect([by(17), by(13), by(61)]).toEqual([0, 0, 0]);
});

it('stays in a mouth that is closed, and where nothing tells a lip from what is inside', () => {
  const { points, width } = portrait.face;
  const closed = points.slice();
  for (const axis of [0, 1, 2]) closed[14 * 3 + axis] = closed[13 * 3 + axis] as number;
  const colours = coloursOf({ ...portrait.picture, data: smile });
  expect(withLipEdge(closed, width, colours)).toBe(closed);
  expect(withEdge(new Float32Array(smile.length).fill(120))).toEqual(points);
});
