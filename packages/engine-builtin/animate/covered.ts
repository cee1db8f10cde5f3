import { coverAt, coverCrop, coveredShare, shareCovered, showsFrame } from '@semblance/vision/face-cover';
import { type Face, POINTS } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LEFT_EYE, LIPS_OUTER, RIGHT_EYE } from '@semblance/vision/face-regions';
import type { Plane } from '@semblance/vision/plane/plane';
import type { Expression } from './expression.ts';
import type { Angles } from './rotation.ts';

/** Shares of the lips and of an eye from which they are covered. */
const MOUTH = 0.2;
const EYE = 0.5;
/** The same for the frame of glasses, whose rim then crosses the eye. */
const FRAMED_EYE = 0.45;
/** Share of a face from which it counts as covered. Of 269 portraits only one reaches it, with an eye patch. */
export const COVERED_FACE = 0.08;
/** Share from which what covers a face is a mask, which has the face's relief. */
const MASK = 0.35;
/** Share of a turn that a head with an object in front of it makes. */
const TURN = 0.5;

/** What something in front of a still's face covers. */
export interface Covered {
  /** Share of each mesh point. */
  readonly points: Float32Array;
  readonly face: number;
  readonly mouth: boolean;
  /** The right and the left eye. */
  readonly eyes: readonly [boolean, boolean];
  /** Whether it is the frame of glasses through which the eyes are seen. */
  readonly framed: boolean;
}

/** @param cover what the network finds in front of the face */
export function coveredOf(cover: Plane, face: Face): Covered {
  const framed = showsFrame(cover, face);
  const isCovered = (eye: readonly number[]): boolean =>
    coveredShare(cover, face, eye) > (framed ? FRAMED_EYE : EYE);
  const crop = coverCrop(face);
  const { points } = face;
  return {
    points: Float32Array.from({ length: POINTS }, (_, v) => {
      const share = coverAt(cover, crop, points[v * 3] as number, points[v * 3 + 1] as number);
      return shareCovered(share);
    }),
    face: coveredShare(cover, face, FACE_OVAL),
    mouth: coveredShare(cover, face, LIPS_OUTER) > MOUTH,
    eyes: [isCovered(RIGHT_EYE), isCovered(LEFT_EYE)],
    framed,
  };
}

/** Whether an object is in front of a face, rather than a mask or nothing. */
function isObject({ face }: Covered): boolean {
  return face >= COVERED_FACE && face < MASK;
}

/**
 * Returns a pose without what the covered parts of a face do. An object beyond the face's outline bends where the
 * head turns, so it turns less.
 */
export function shownPose<P extends Angles & { readonly expression: Expression }>(
  pose: P,
  covered: Covered,
): P {
  const { lips, eyes, brows } = pose.expression;
  const turn = isObject(covered) ? TURN : 1;
  return {
    ...pose,
    yaw: turn * pose.yaw,
    pitch: turn * pose.pitch,
    expression: {
      ...(lips && !covered.mouth ? { lips } : {}),
      ...(eyes ? { eyes: [covered.eyes[0] ? 1 : eyes[0], covered.eyes[1] ? 1 : eyes[1]] as const } : {}),
      ...(brows ? { brows } : {}),
    },
  };
}

/**
 * Returns the mesh with an object in front of it as a plane, so that it turns with the head and does not bend over
 * the nose.
 */
export function withFlatObject(points: Float32Array, covered: Covered | undefined): Float32Array {
  if (!covered || !isObject(covered)) return points;
  const at = fittedPlane(points, covered.points);
  if (!at) return points;
  const out = points.slice();
  for (let v = 0; v < POINTS; v++) {
    const z = points[v * 3 + 2] as number;
    const by = at(points[v * 3] as number, points[v * 3 + 1] as number) - z;
    out[v * 3 + 2] = z + (covered.points[v] as number) * by;
  }
  return out;
}

/** Returns the depth of the plane through weighted points by least squares; undefined for too few of them. */
function fittedPlane(
  points: Float32Array,
  weights: Float32Array,
): ((x: number, y: number) => number) | undefined {
  const mean = [0, 0, 0];
  let all = 0;
  weights.forEach((weight, v) => {
    all += weight;
    for (let k = 0; k < 3; k++) mean[k] = (mean[k] as number) + weight * (points[v * 3 + k] as number);
  });
  if (all < 3) return undefined;
  const [mx, my, mz] = mean.map((sum) => sum / all) as [number, number, number];
  let [xx, xy, yy, xz, yz] = [0, 0, 0, 0, 0];
  weights.forEach((weight, v) => {
    const x = (points[v * 3] as number) - mx;
    const y = (points[v * 3 + 1] as number) - my;
    const z = (points[v * 3 + 2] as number) - mz;
    xx += weight * x * x;
    xy += weight * x * y;
    yy += weight * y * y;
    xz += weight * x * z;
    yz += weight * y * z;
  });
  // A little stiffness, because points on one line define no plane.
  const stiff = 0.05 * (xx + yy);
  const determinant = (xx + stiff) * (yy + stiff) - xy * xy;
  const a = (xz * (yy + stiff) - yz * xy) / determinant;
  const b = (yz * (xx + stiff) - xz * xy) / determinant;
  return (x, y) => mz + a * (x - mx) + b * (y - my);
}
