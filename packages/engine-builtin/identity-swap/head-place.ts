import { FACE_OVAL, LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import { OneEuroFilter } from '../motion-transfer/one-euro.ts';
import { type Affine, apply, clamp, cross, dot, type Vec } from './geometry.ts';
import type { Skeleton } from './skeleton.ts';

/** Mesh points that lie on each other: outline, eyes, bridge of the nose. The mouth moves too much. */
const FITTED = [...FACE_OVAL, ...LEFT_EYE, ...RIGHT_EYE, 168, 6, 197, 195, 5];
const WHERE = { atRest: 2.5, withSpeed: 12 } as const;
const HOW = { atRest: 1, withSpeed: 4 } as const;

/** Position of a head in a frame: middle of the eyes, eye distance in pixels, direction to the chin in radians. */
export interface HeadSpot extends Vec {
  readonly iod: number;
  readonly angle: number;
}

/** Relation of a face to the body points of its head, in body sizes. */
interface Bearing {
  readonly right: number;
  readonly down: number;
  readonly iod: number;
  readonly angle: number;
}

/**
 * Returns the map that lays a face on another one in the picture plane: least squares over outline and eyes, one
 * scale.
 * @param from x and y of the mesh points
 * @param to x, y and z of the mesh points
 */
export function fitFace(from: Float32Array, to: Float32Array): Affine {
  let [fx, fy, tx, ty] = [0, 0, 0, 0];
  for (const i of FITTED) {
    fx += from[i * 2] as number;
    fy += from[i * 2 + 1] as number;
    tx += to[i * 3] as number;
    ty += to[i * 3 + 1] as number;
  }
  const n = FITTED.length;
  [fx, fy, tx, ty] = [fx / n, fy / n, tx / n, ty / n];
  let [along, across, all] = [0, 0, 1e-9];
  for (const i of FITTED) {
    const a = { x: (from[i * 2] as number) - fx, y: (from[i * 2 + 1] as number) - fy };
    const b = { x: (to[i * 3] as number) - tx, y: (to[i * 3 + 1] as number) - ty };
    along += dot(a, b);
    across += cross(a, b);
    all += dot(a, a);
  }
  const [c, s] = [along / all, across / all];
  return [c, -s, tx - c * fx + s * fy, s, c, ty - s * fx - c * fy];
}

/** Places a head on that of a person, by its face; where no face is visible, by the points of the body. */
export class HeadPlacer {
  readonly #where = new OneEuroFilter(WHERE);
  readonly #how = new OneEuroFilter(HOW);
  #bearing: Bearing | undefined;
  #unit: number | undefined;

  /** Learns how a face lies relative to the body points, as from a coming frame. */
  learn(spot: HeadSpot, of: Skeleton): void {
    const { down, right } = axesOf(of);
    const d = { x: spot.x - of.head.x, y: spot.y - of.head.y };
    this.#bearing = {
      right: dot(d, right) / of.size,
      down: dot(d, down) / of.size,
      iod: spot.iod / of.size,
      angle: turnBetween(Math.atan2(down.y, down.x), spot.angle),
    };
  }

  get knows(): boolean {
    return this.#bearing !== undefined;
  }

  /** Returns where the head is without a visible face; call `learn` before. */
  guessed(of: Skeleton): HeadSpot {
    const { right, down, iod, angle } = this.#bearing as Bearing;
    const axes = axesOf(of);
    return {
      x: of.head.x + of.size * (right * axes.right.x + down * axes.down.x),
      y: of.head.y + of.size * (right * axes.right.y + down * axes.down.y),
      iod: iod * of.size,
      angle: Math.atan2(axes.down.y, axes.down.x) + angle,
    };
  }

  /** Removes jitter. */
  smooth(spot: HeadSpot, ptsUs: number): HeadSpot {
    this.#unit ??= spot.iod;
    const unit = this.#unit;
    const [x, y] = this.#where.filter([spot.x / unit, spot.y / unit], ptsUs) as unknown as [number, number];
    // The sine and cosine of an angle do not jump where the angle does.
    const [log, cos, sin] = this.#how.filter(
      [Math.log(spot.iod), Math.cos(spot.angle), Math.sin(spot.angle)],
      ptsUs,
    ) as unknown as [number, number, number];
    return { x: x * unit, y: y * unit, iod: Math.exp(log), angle: Math.atan2(sin, cos) };
  }
}

/** Returns where a head lies that a map moves. @param eyes, chin of the head, before the map */
export function spotOf(map: Affine, eyes: Vec, chin: Vec, iod: number): HeadSpot {
  const [p, q] = [apply(map, eyes), apply(map, chin)];
  return { ...p, iod: iod * Math.hypot(map[0], map[3]), angle: Math.atan2(q.y - p.y, q.x - p.x) };
}

/** The inverse of {@link spotOf}. */
export function mapTo(spot: HeadSpot, eyes: Vec, chin: Vec, iod: number): Affine {
  const turn = spot.angle - Math.atan2(chin.y - eyes.y, chin.x - eyes.x);
  const [c, s] = [Math.cos(turn), Math.sin(turn)].map((part) => (part * spot.iod) / iod) as [number, number];
  return [c, -s, spot.x - c * eyes.x + s * eyes.y, s, c, spot.y - s * eyes.x - c * eyes.y];
}

/** Returns middle of the eyes and chin of placed mesh points. @param points x and y in turn */
export function eyesAndChin(points: Float32Array): { eyes: Vec; chin: Vec } {
  let [x, y] = [0, 0];
  const all = [...LEFT_EYE, ...RIGHT_EYE];
  for (const i of all) {
    x += (points[i * 2] as number) / all.length;
    y += (points[i * 2 + 1] as number) / all.length;
  }
  return { eyes: { x, y }, chin: { x: points[152 * 2] as number, y: points[152 * 2 + 1] as number } };
}

function axesOf({ headDown }: Skeleton): { right: Vec; down: Vec } {
  return { down: headDown, right: { x: headDown.y, y: -headDown.x } };
}

function turnBetween(from: number, to: number): number {
  const by = to - from;
  return clamp(Math.atan2(Math.sin(by), Math.cos(by)), -1, 1);
}
