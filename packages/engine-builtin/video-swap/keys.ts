import { yaw } from '@semblance/vision/face-finder';
import { type Face, pointOf } from '@semblance/vision/face-mesh';
import type { Frame } from './frame-part.ts';

/** The look of a face in an analysed frame, to detect when it changes. */
export interface Look {
  /** Brightness at each point relative to all of them. */
  readonly values: Float32Array;
  /** Both colour values there. */
  readonly us: Uint8Array;
  readonly vs: Uint8Array;
  /** Mean brightness at the points, and of both colour values. */
  readonly level: number;
  readonly u: number;
  readonly v: number;
  readonly yaw: number;
  readonly width: number;
}

/** Change of relative brightness that a moving shadow or highlight does not reach. */
const CHANGED = 0.35;
/** Share of changed points from which something new is in front, or has gone. */
const CHANGED_SHARE = 0.05;
const TURNED = (8 * Math.PI) / 180;
const GROWN = 1.2;

/** Limits within which a face looks unchanged: for three quarters of the points, for the mean, and for the pose. */
const ALIKE = { changedShare: 0.025, shading: 0.07, level: 1.06, tint: 2, yaw: Math.PI / 60, width: 1.06 };

/** Every second point is examined. */
export const LOOK_STEP = 2;

export function lookOf(frame: Frame, face: Face): Look {
  const { width, height, data } = frame;
  const count = Math.floor(face.points.length / 3 / LOOK_STEP);
  const values = new Float32Array(count);
  const us = new Uint8Array(count);
  const vs = new Uint8Array(count);
  const uAt = width * height;
  const vAt = uAt + uAt / 4;
  let [sum, u, v] = [0, 0, 0];
  for (let i = 0; i < count; i++) {
    const { x, y } = pointOf(face.points, i * LOOK_STEP);
    const px = Math.min(width - 2, Math.max(1, Math.floor(x)));
    const py = Math.min(height - 2, Math.max(1, Math.floor(y)));
    const at = py * width + px;
    const value =
      (data[at] as number) +
      (data[at - 1] as number) +
      (data[at + 1] as number) +
      (data[at - width] as number) +
      (data[at + width] as number);
    values[i] = value;
    sum += value;
    const c = (py >> 1) * (width >> 1) + (px >> 1);
    us[i] = data[uAt + c] as number;
    vs[i] = data[vAt + c] as number;
    u += us[i] as number;
    v += vs[i] as number;
  }
  const by = count / Math.max(1, sum);
  for (let i = 0; i < count; i++) values[i] = (values[i] as number) * by;
  const level = sum / count / 5;
  return { values, us, vs, level, u: u / count, v: v / count, yaw: yaw(face), width: face.width };
}

/**
 * Returns whether the face must be analysed again: something came in front of it or went, or it turned or came
 * nearer.
 */
export function differs(a: Look, b: Look): boolean {
  if (moved(a, b)) return true;
  return changes(a, b).filter((change) => change > CHANGED).length > CHANGED_SHARE * a.values.length;
}

/** Returns whether the face turned or came nearer. */
export function moved(a: Look, b: Look): boolean {
  return Math.abs(a.yaw - b.yaw) > TURNED || Math.max(a.width / b.width, b.width / a.width) > GROWN;
}

/**
 * Returns whether an analysis of one would give the same result for the other: same light from the same side, same
 * pose.
 */
export function alike(a: Look, b: Look): boolean {
  const ratio = (x: number, y: number): number => Math.max(x, y) / Math.max(1, Math.min(x, y));
  if (Math.abs(a.yaw - b.yaw) > ALIKE.yaw || ratio(a.width, b.width) > ALIKE.width) return false;
  if (Math.max(Math.abs(a.u - b.u), Math.abs(a.v - b.v)) > ALIKE.tint) return false;
  if (ratio(a.level, b.level) > ALIKE.level) return false;
  const sorted = changes(a, b).sort();
  const at = (share: number): number => sorted[Math.floor(share * (sorted.length - 1))] as number;
  return at(0.75) < ALIKE.shading && at(1 - ALIKE.changedShare) < CHANGED;
}

function changes(a: Look, b: Look): Float32Array {
  return a.values.map((value, i) => Math.abs(value - (b.values[i] as number)));
}

/** Returns the face width for which a patch of the source is made; each step is a quarter larger. */
export function patchWidth(faceWidth: number): number {
  const step = Math.ceil(Math.log(Math.max(1, faceWidth / 1.05 / 48)) / Math.log(1.25));
  return Math.round(48 * 1.25 ** step);
}
