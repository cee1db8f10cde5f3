import { LIPS_INNER, LIPS_OUTER } from '@semblance/vision/face-regions';

/** Rings of mesh points around the mouth, from the outer edge of the lips inwards, each in the order of LIPS_OUTER. */
export const LIP_RINGS: readonly (readonly number[])[] = [
  LIPS_OUTER,
  [76, 77, 90, 180, 85, 16, 315, 404, 320, 307, 306, 408, 304, 303, 302, 11, 72, 73, 74, 184],
  [62, 96, 89, 179, 86, 15, 316, 403, 319, 325, 292, 407, 272, 271, 268, 12, 38, 41, 42, 183],
  LIPS_INNER,
];
export const RING_COUNT = LIP_RINGS.length;
export const RING_SIZE = 20;
/** All ring points, ring after ring. */
export const RING_POINTS: readonly number[] = LIP_RINGS.flat();

/** Returns the indices of column `k` in a ring: 0 is the person's right corner, 10 the left one. */
export function lipRows(k: number): { readonly upper: number; readonly lower: number } {
  return { upper: (RING_SIZE - k) % RING_SIZE, lower: k };
}

/** Returns x, y of the ring points from x, y, z of the mesh in the face's own frame. */
export function ringsOf(own: Float32Array): Float32Array {
  const out = new Float32Array(RING_POINTS.length * 2);
  RING_POINTS.forEach((index, i) => {
    out[i * 2] = own[index * 3] as number;
    out[i * 2 + 1] = own[index * 3 + 1] as number;
  });
  return out;
}
