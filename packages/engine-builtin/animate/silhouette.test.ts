import { describe, expect, it } from 'vitest';
import type { BytePlane } from './raster.ts';
import { faceEdges, smoothSilhouette } from './silhouette.ts';

/** Two triangles that share the edge between corners 1 and 2, a slanted line down the middle. */
const FACE = Uint16Array.from([0, 1, 2]);
const AROUND = Uint16Array.from([1, 3, 2]);
const SIDE = 40;
const ALL = { left: 0, top: 0, right: SIDE, bottom: SIDE };

/** Returns the corners of the triangles. @param folded whether the second triangle faces away */
function corners(folded: boolean): Float32Array {
  return Float32Array.from([5, 20, 25, 35, 15, 5, folded ? 8 : 35, 20]);
}

/** Returns a plane that is white left of the line between the corners and black right of it, in whole pixels. */
function stairs(): BytePlane {
  const data = new Uint8Array(SIDE * SIDE);
  for (let y = 0; y < SIDE; y++) {
    for (let x = 0; x < SIDE; x++) data[y * SIDE + x] = x < 15 + (y - 5) / 3 ? 255 : 0;
  }
  return { width: SIDE, height: SIDE, data };
}

describe('the silhouette of a face', () => {
  it('has the edges of the face, and none that lie outside of it', () => {
    const { edges } = faceEdges(FACE, [AROUND, Uint16Array.from([1, 4, 3])]);
    expect([...edges]).toEqual([2, 1, 0, 1]);
  });

  it('is smoothed where the face hides what is behind it, and nowhere else', () => {
    const plane = stairs();
    smoothSilhouette(plane, ALL, corners(true), faceEdges(FACE, [AROUND]));
    const before = stairs().data;
    let between = 0;
    for (let y = 0; y < SIDE; y++) {
      for (let x = 0; x < SIDE; x++) {
        const value = plane.data[y * SIDE + x] as number;
        const edge = 15 + (y - 5) / 3;
        if (y < 5 || y > 35 || Math.abs(x - edge) > 3) expect(value).toBe(before[y * SIDE + x]);
        else if (value > 20 && value < 235) between++;
      }
    }
    // About two pixels in each of its 30 rows.
    expect(between).toBeGreaterThan(40);
  });

  it('is left as it is outside of the box', () => {
    const plane = stairs();
    const box = { ...ALL, top: 20 };
    smoothSilhouette(plane, box, corners(true), faceEdges(FACE, [AROUND]));
    const before = stairs().data;
    expect(plane.data.subarray(0, 20 * SIDE)).toEqual(before.subarray(0, 20 * SIDE));
    expect(plane.data.subarray(20 * SIDE)).not.toEqual(before.subarray(20 * SIDE));
  });

  it('is not where both sides are seen', () => {
    const plane = stairs();
    smoothSilhouette(plane, ALL, corners(false), faceEdges(FACE, [AROUND]));
    expect(plane.data).toEqual(stairs().data);
  });
});
