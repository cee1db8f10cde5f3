import { centroid } from '@semblance/vision/face-mesh';
import { LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import type { Matrix3 } from './rotation.ts';

/**
 * The face's own frame: x from the right eye to the left one, y from the forehead to the chin, z into the head. The
 * origin is between the eyes; lengths are shares of the eye distance.
 */
export interface FaceFrame {
  readonly origin: readonly [number, number, number];
  /** Distance between the centres of the eyes, in pixels (IOD). */
  readonly iod: number;
  /** Columns are the axes in the camera's frame. */
  readonly axes: Matrix3;
}

const TOP = 10;
const CHIN = 152;

export function faceFrame(points: Float32Array): FaceFrame {
  const right = center(points, RIGHT_EYE);
  const left = center(points, LEFT_EYE);
  const across = minus(left, right);
  const iod = Math.hypot(...across);
  const x = scaled(across, 1 / iod);
  const down = minus(at(points, CHIN), at(points, TOP));
  const along = dot(down, x);
  const upright: Vector = [down[0] - along * x[0], down[1] - along * x[1], down[2] - along * x[2]];
  const y = scaled(upright, 1 / Math.hypot(...upright));
  const z: Vector = [x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]];
  return {
    origin: [(right[0] + left[0]) / 2, (right[1] + left[1]) / 2, (right[2] + left[2]) / 2],
    iod,
    axes: Float64Array.of(x[0], y[0], z[0], x[1], y[1], z[1], x[2], y[2], z[2]),
  };
}

/** Converts points from the camera's frame to the face's own; x, y, z of each. */
export function toFaceFrame(frame: FaceFrame, points: Float32Array): Float32Array {
  const out = new Float32Array(points.length);
  const { axes, origin, iod } = frame;
  for (let i = 0; i < points.length; i += 3) {
    const dx = ((points[i] as number) - origin[0]) / iod;
    const dy = ((points[i + 1] as number) - origin[1]) / iod;
    const dz = ((points[i + 2] as number) - origin[2]) / iod;
    for (let k = 0; k < 3; k++) {
      out[i + k] = dx * (axes[k] as number) + dy * (axes[3 + k] as number) + dz * (axes[6 + k] as number);
    }
  }
  return out;
}

/** The inverse of {@link toFaceFrame}. */
export function fromFaceFrame(frame: FaceFrame, points: Float32Array): Float32Array {
  const out = new Float32Array(points.length);
  const { axes, origin, iod } = frame;
  for (let i = 0; i < points.length; i += 3) {
    const x = (points[i] as number) * iod;
    const y = (points[i + 1] as number) * iod;
    const z = (points[i + 2] as number) * iod;
    for (let k = 0; k < 3; k++) {
      const r = k * 3;
      out[i + k] =
        (origin[k] as number) +
        x * (axes[r] as number) +
        y * (axes[r + 1] as number) +
        z * (axes[r + 2] as number);
    }
  }
  return out;
}

type Vector = [number, number, number];

function center(points: Float32Array, indices: readonly number[]): Vector {
  const { x, y } = centroid(points, indices);
  const z = indices.reduce((sum, i) => sum + (points[i * 3 + 2] as number), 0) / indices.length;
  return [x, y, z];
}

function at(points: Float32Array, i: number): Vector {
  return [points[i * 3] as number, points[i * 3 + 1] as number, points[i * 3 + 2] as number];
}

const minus = (a: Vector, b: Vector): Vector => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const scaled = (a: Vector, f: number): Vector => [a[0] * f, a[1] * f, a[2] * f];
const dot = (a: Vector, b: Vector): number => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
