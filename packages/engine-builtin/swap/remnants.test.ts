import { LEFT_BROW, NOSE_BASE, RIGHT_BROW } from '@semblance/vision/face-regions';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { MOUSTACHE } from './beard.ts';
import type { Channels } from './light.ts';
import { type RemnantParts, remnantsOf } from './remnants.ts';
import { ALL_SHOWN } from './shown-features.ts';

const SIZE = 200;
type Box = readonly [left: number, top: number, right: number, bottom: number];

const MESH: readonly (readonly [readonly number[], Box])[] = [
  [RIGHT_BROW, [40, 60, 80, 68]],
  [LEFT_BROW, [120, 60, 160, 68]],
  [MOUSTACHE, [80, 130, 120, 150]],
  [NOSE_BASE, [85, 110, 115, 130]],
];
const points = new Float32Array(478 * 2);
for (const [group, [left, top, right, bottom]] of MESH)
  group.forEach((index, k) => {
    const [x, y] = [k % 2 ? left : right, k % 4 < 2 ? top : bottom];
    points.set([x, y], index * 2);
  });

function box(...boxes: readonly Box[]): Plane {
  const out = plane(SIZE, SIZE);
  for (const [left, top, right, bottom] of boxes)
    for (let y = top; y < bottom; y++) out.data.fill(1, y * SIZE + left, y * SIZE + right);
  return out;
}

/** Returns what is marked at a place of a face with some dark boxes. */
function marked(boxes: readonly Box[], x: number, y: number, other: Partial<RemnantParts> = {}): number {
  const old = box(...boxes);
  const own = [0, 1, 2].map(() => ({ ...old, data: old.data.map((dark) => 180 - 120 * dark) }));
  const meshes = box(...MESH.filter(([group]) => group !== MOUSTACHE).map(([, each]) => each));
  const none = plane(SIZE, SIZE);
  const parts = { points, features: ALL_SHOWN, brows: 1, beard: 0, share: none, dark: meshes, covered: none };
  const { data } = remnantsOf(own as unknown as Channels, { ...parts, ...other }, SIZE);
  return data[y * SIZE + x] as number;
}

/** A brow that reaches above its mesh, and one from which hair goes on. */
const BROW: Box = [40, 53, 80, 66];
const FRINGE: Box = [50, 5, 70, 66];
const SHADOW: Box = [95, 122, 105, 142];

describe('remnantsOf', () => {
  it('finds a brow that reaches beyond its mesh, and no skin', () => {
    expect(marked([BROW], 60, 54)).toBeGreaterThan(0.9);
    expect(marked([BROW], 60, 30)).toBe(0);
    expect(marked([], 60, 54)).toBe(0);
  });

  it('leaves hair that goes on, brows that stay, and what the new brows replace', () => {
    expect(marked([FRINGE], 60, 54)).toBe(0);
    expect(marked([BROW], 60, 54, { brows: 0 })).toBe(0);
    expect(marked([BROW], 60, 54, { features: { ...ALL_SHOWN, rightBrow: 0 } })).toBe(0);
    expect(marked([BROW], 60, 54, { share: plane(SIZE, SIZE, 1) })).toBe(0);
    expect(marked([BROW], 60, 54, { covered: plane(SIZE, SIZE, 1) })).toBe(0);
  });

  it('finds the shadow below a nose, unless it may be a moustache', () => {
    expect(marked([SHADOW], 100, 138)).toBeGreaterThan(0.9);
    expect(marked([SHADOW], 100, 138, { beard: 1 })).toBe(0);
    expect(marked([SHADOW], 100, 138, { features: { ...ALL_SHOWN, nose: 0 } })).toBe(0);
  });
});
