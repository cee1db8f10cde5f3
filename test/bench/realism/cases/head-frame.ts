import { type Face, POINTS } from '@semblance/vision/face-mesh';
import { FACE_SIDES } from '@semblance/vision/face-regions';

export type Vec = readonly [x: number, y: number, z: number];

export const add = (a: Vec, b: Vec): Vec => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
export const sub = (a: Vec, b: Vec): Vec => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
export const scale = (a: Vec, by: number): Vec => [a[0] * by, a[1] * by, a[2] * by];
export const dot = (a: Vec, b: Vec): number => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
export const cross = (a: Vec, b: Vec): Vec => [
  a[1] * b[2] - a[2] * b[1],
  a[2] * b[0] - a[0] * b[2],
  a[0] * b[1] - a[1] * b[0],
];
export const unit = (a: Vec): Vec => scale(a, 1 / Math.max(1e-9, Math.hypot(...a)));
export const mix = (a: Vec, b: Vec, t: number): Vec => add(scale(a, 1 - t), scale(b, t));

/** Mesh point at the top of the nose, between the eyes. */
const ORIGIN = 168;

/**
 * Coordinates of one head in units of its face width: x to the right of the picture, y down the face, z away from
 * the viewer, with the origin at the top of the nose. They turn with the head's roll, yaw and pitch.
 */
export class HeadFrame {
  /** Picture pixels per unit. */
  readonly width: number;
  readonly #axes: readonly [Vec, Vec, Vec];
  readonly #origin: Vec;
  readonly #points: Float32Array;

  constructor(face: Face) {
    this.width = face.width;
    this.#points = face.points;
    const at = (index: number): Vec => this.#meshPoint(index);
    const x = unit(sub(at(FACE_SIDES[1]), at(FACE_SIDES[0])));
    const down = sub(at(152), at(10));
    const y = unit(sub(down, scale(x, dot(down, x))));
    this.#axes = [x, y, cross(x, y)];
    this.#origin = at(ORIGIN);
  }

  #meshPoint(index: number): Vec {
    const p = this.#points;
    return [p[index * 3] as number, p[index * 3 + 1] as number, p[index * 3 + 2] as number];
  }

  /** Returns a mesh point in units of the head. */
  point(index: number): Vec {
    return this.toHead(this.#meshPoint(index));
  }

  /** Returns all mesh points in units of the head. */
  points(): Vec[] {
    return Array.from({ length: POINTS }, (_, index) => this.point(index));
  }

  toHead(picture: Vec): Vec {
    return this.directionToHead(scale(sub(picture, this.#origin), 1 / this.width));
  }

  directionToHead(d: Vec): Vec {
    const [x, y, z] = this.#axes;
    return [dot(d, x), dot(d, y), dot(d, z)];
  }

  toPicture(head: Vec): Vec {
    return add(this.#origin, scale(this.directionToPicture(head), this.width));
  }

  directionToPicture(d: Vec): Vec {
    const [x, y, z] = this.#axes;
    return add(add(scale(x, d[0]), scale(y, d[1])), scale(z, d[2]));
  }
}
