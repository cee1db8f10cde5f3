import { yaw } from '../vision/face-finder.ts';
import { type Face, pointOf } from '../vision/face-mesh.ts';
import type { Frame } from './frame-part.ts';

/** What a face looked like in a frame that was analysed, to tell when it looks different. */
export interface Look {
  /** Brightness under each point, relative to all of them. */
  readonly values: Float32Array;
  readonly yaw: number;
  readonly width: number;
}

/** Change of brightness, relative to the face's, that a moved shadow or highlight does not make. */
const CHANGED = 0.35;
/** Share of the points changed from which something new lies in front, or went. */
const CHANGED_SHARE = 0.05;
const TURNED = (8 * Math.PI) / 180;
const GROWN = 1.2;

/** Every second point is looked at. */
const STEP = 2;

export function lookOf(frame: Frame, face: Face): Look {
  const { width, height, data } = frame;
  const count = Math.floor(face.points.length / 3 / STEP);
  const values = new Float32Array(count);
  let sum = 0;
  for (let i = 0; i < count; i++) {
    const { x, y } = pointOf(face.points, i * STEP);
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
  }
  const by = count / Math.max(1, sum);
  for (let i = 0; i < count; i++) values[i] = (values[i] as number) * by;
  return { values, yaw: yaw(face), width: face.width };
}

/** Whether the face must be analysed anew: something came in front of it or went, or it turned or came nearer. */
export function differs(a: Look, b: Look): boolean {
  if (Math.abs(a.yaw - b.yaw) > TURNED) return true;
  if (Math.max(a.width / b.width, b.width / a.width) > GROWN) return true;
  let changed = 0;
  for (let i = 0; i < a.values.length; i++) {
    if (Math.abs((a.values[i] as number) - (b.values[i] as number)) > CHANGED) changed++;
  }
  return changed > CHANGED_SHARE * a.values.length;
}

/** Widths of faces for which patches of the source are made, each a quarter more than the one before. */
export function patchWidth(faceWidth: number): number {
  const step = Math.ceil(Math.log(Math.max(1, faceWidth / 1.05 / 48)) / Math.log(1.25));
  return Math.round(48 * 1.25 ** step);
}
