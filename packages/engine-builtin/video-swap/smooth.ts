import { POINTS } from '@semblance/vision/face-mesh';
import {
  LEFT_BROW,
  LEFT_EYE,
  LIPS_INNER,
  LIPS_OUTER,
  RIGHT_BROW,
  RIGHT_EYE,
} from '@semblance/vision/face-regions';

/** Number of frames before and after one that help to place its mesh. */
const SMOOTHING_REACH = 4;
/**
 * Deviation of a pair of frames from the one between them up to which it is noise of the network (about 0.4 % for
 * one mesh), and the rate at which the pair loses weight beyond it, as shares of the eye distance.
 */
const NOISE = 0.015;
const TOLERANCE = 0.006;

const LOWER_FACE = [
  152, 148, 176, 149, 150, 136, 377, 400, 378, 379, 365, 175, 171, 140, 170, 169, 396, 369, 395, 394, 199,
  208, 428, 200, 201, 421, 18, 83, 313,
];
const MOUTH_RINGS = [
  ...[76, 77, 90, 180, 85, 16, 315, 404, 320, 307, 306, 408, 304, 303, 302, 11, 72, 73, 74, 184],
  ...[62, 96, 89, 179, 86, 15, 316, 403, 319, 325, 292, 407, 272, 271, 268, 12, 38, 41, 42, 183],
];
const RIGHT_LIDS = [247, 30, 29, 27, 28, 56, 190, 130, 25, 110, 24, 23, 22, 26, 112, 243];
const LEFT_LIDS = [467, 260, 259, 257, 258, 286, 414, 359, 255, 339, 254, 253, 252, 256, 341, 463];

/** Parts of the face that move independently; the rest moves with the head. */
export const GROUPS = groups([
  [...LIPS_OUTER, ...LIPS_INNER, ...MOUTH_RINGS, ...LOWER_FACE],
  [...RIGHT_EYE, ...RIGHT_LIDS],
  [...LEFT_EYE, ...LEFT_LIDS],
  [...RIGHT_BROW, ...LEFT_BROW],
]);

function groups(named: readonly (readonly number[])[]): readonly (readonly number[])[] {
  const taken = new Set(named.flat());
  return [...named, Array.from({ length: POINTS }, (_, i) => i).filter((i) => !taken.has(i))];
}

/** A mesh split into the place, rotation and size of the head, and its shape within them. */
export interface Posed {
  readonly centreX: number;
  readonly centreY: number;
  /** Rotation and size as one complex number. */
  readonly re: number;
  readonly im: number;
  readonly shape: Float64Array;
  readonly points: Float32Array;
  /** Eye distance of the reference. */
  readonly eyes: number;
}

/**
 * Returns the mesh of a frame with its noise averaged over the neighbours and without lag. Neighbours count in
 * pairs, one before and one after, as far as their middle agrees with the frame itself. So a face at rest or in
 * even motion is averaged over all pairs, and one that starts, stops, blinks or speaks over none (a bilateral
 * filter in time: Tomasi and Manduchi 1998). The head's motion and each part of the face are judged separately.
 */
export function smoothedMesh(at: (index: number) => Posed | undefined, index: number): Float32Array {
  const own = at(index) as Posed;
  const pairs: [Posed, Posed][] = [];
  for (let d = 1; d <= SMOOTHING_REACH; d++) {
    const before = at(index - d);
    const after = at(index + d);
    if (!before || !after) break;
    pairs.push([before, after]);
  }
  if (pairs.length === 0) return own.points;
  const head = smoothedHead(own, pairs);
  const shape = own.shape.slice();
  for (const group of GROUPS) smoothGroup(shape, own, pairs, group);
  return meshOf(head, shape);
}

/** Returns a shape at the place of a head. */
export function meshOf(
  { centreX, centreY, re, im }: Pick<Posed, 'centreX' | 'centreY' | 're' | 'im'>,
  shape: Float64Array,
): Float32Array {
  const out = new Float32Array(shape.length);
  const size = Math.hypot(re, im);
  for (let i = 0; i < out.length; i += 3) {
    const x = shape[i] as number;
    const y = shape[i + 1] as number;
    out[i] = centreX + re * x - im * y;
    out[i + 1] = centreY + im * x + re * y;
    out[i + 2] = size * (shape[i + 2] as number);
  }
  return out;
}

/** Splits a mesh into pose, relative to a reference by least squares, and shape, in units of the reference. */
export function posed(points: Float32Array, reference: Float32Array): Posed {
  const [cx, cy] = mean(points);
  const [rx, ry] = mean(reference);
  let re = 0;
  let im = 0;
  let total = 0;
  for (let i = 0; i < points.length; i += 3) {
    const px = (points[i] as number) - cx;
    const py = (points[i + 1] as number) - cy;
    const qx = (reference[i] as number) - rx;
    const qy = (reference[i + 1] as number) - ry;
    re += qx * px + qy * py;
    im += qx * py - qy * px;
    total += qx * qx + qy * qy;
  }
  re /= total;
  im /= total;
  const squared = re * re + im * im;
  const size = Math.sqrt(squared);
  const shape = new Float64Array(points.length);
  for (let i = 0; i < points.length; i += 3) {
    const px = (points[i] as number) - cx;
    const py = (points[i + 1] as number) - cy;
    shape[i] = (re * px + im * py) / squared;
    shape[i + 1] = (re * py - im * px) / squared;
    shape[i + 2] = (points[i + 2] as number) / size;
  }
  return { centreX: cx, centreY: cy, re, im, shape, points, eyes: eyeDistance(reference) };
}

function smoothedHead(own: Posed, pairs: readonly [Posed, Posed][]): Posed {
  // All values are in frame pixels: rotation and size count by how far they move a point at eye distance.
  const reach = own.eyes;
  const eyes = reach * Math.hypot(own.re, own.im);
  const values = (p: Posed): number[] => [p.centreX, p.centreY, p.re * reach, p.im * reach];
  const base = values(own);
  const sums = base.slice();
  let total = 1;
  let weight = 1;
  for (const [before, after] of pairs) {
    const later = values(after);
    const pair = values(before).map((v, k) => (v + (later[k] as number)) / 2);
    const deviation = Math.hypot(...pair.map((v, k) => v - (base[k] as number))) / eyes;
    weight *= likely(deviation);
    total += 2 * weight;
    for (let k = 0; k < sums.length; k++) sums[k] = (sums[k] as number) + 2 * weight * (pair[k] as number);
  }
  const [x = 0, y = 0, re = 0, im = 0] = sums.map((v) => v / total);
  return { ...own, centreX: x, centreY: y, re: re / reach, im: im / reach };
}

function smoothGroup(
  shape: Float64Array,
  own: Posed,
  pairs: readonly [Posed, Posed][],
  group: readonly number[],
): void {
  let weight = 1;
  let total = 1;
  const weights: number[] = [];
  for (const [before, after] of pairs) {
    let squares = 0;
    for (const point of group) {
      for (let k = point * 3; k < point * 3 + 2; k++) {
        const middle = ((before.shape[k] as number) + (after.shape[k] as number)) / 2;
        squares += (middle - (own.shape[k] as number)) ** 2;
      }
    }
    weight *= likely(Math.sqrt(squares / group.length) / own.eyes);
    weights.push(weight);
    total += 2 * weight;
  }
  for (const point of group) {
    for (let k = point * 3; k < point * 3 + 3; k++) {
      let sum = own.shape[k] as number;
      for (let d = 0; d < pairs.length; d++) {
        const [before, after] = pairs[d] as [Posed, Posed];
        sum += (weights[d] as number) * ((before.shape[k] as number) + (after.shape[k] as number));
      }
      shape[k] = sum / total;
    }
  }
}

/** Returns the likelihood that a deviation, as a share of the eye distance, is noise of the network. */
export function likely(deviation: number): number {
  return Math.exp(-0.5 * (Math.max(0, deviation - NOISE) / TOLERANCE) ** 2);
}

function mean(points: Float32Array): [number, number] {
  let x = 0;
  let y = 0;
  for (let i = 0; i < points.length; i += 3) {
    x += points[i] as number;
    y += points[i + 1] as number;
  }
  return [x / (points.length / 3), y / (points.length / 3)];
}

function eyeDistance(points: Float32Array): number {
  const dx = (points[33 * 3] as number) - (points[263 * 3] as number);
  const dy = (points[33 * 3 + 1] as number) - (points[263 * 3 + 1] as number);
  // In profile one eye is behind the other.
  const dz = (points[33 * 3 + 2] as number) - (points[263 * 3 + 2] as number);
  return Math.max(1, Math.hypot(dx, dy, dz));
}
