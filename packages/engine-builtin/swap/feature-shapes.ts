import { LEFT_EYE, LIPS_INNER, LIPS_OUTER, RIGHT_EYE } from '@semblance/vision/face-regions';
import { smoothstep } from '@semblance/vision/plane/plane';

/** Moves one mesh point by x and y, in pixels of the target. */
export type MovePoint = (index: number, dx: number, dy: number) => void;

/** Rings of points around the mouth, from the outer edge of the lips inwards, each in the order of LIPS_OUTER. */
export const LIP_RINGS: readonly (readonly number[])[] = [
  LIPS_OUTER,
  [76, 77, 90, 180, 85, 16, 315, 404, 320, 307, 306, 408, 304, 303, 302, 11, 72, 73, 74, 184],
  [62, 96, 89, 179, 86, 15, 316, 403, 319, 325, 292, 407, 272, 271, 268, 12, 38, 41, 42, 183],
  LIPS_INNER,
];
const LIP_POINTS = LIP_RINGS.flat();
const MOUTH_CORNERS = [61, 291] as const;
const MOUTH_WIDTH = [0.87, 1.15] as const;

/** Points around an eye that move with it: the lids and the rings of points outside them. */
export const EYES = [
  {
    outline: RIGHT_EYE,
    rings: [...RIGHT_EYE, 247, 30, 29, 27, 28, 56, 190, 130, 25, 110, 24, 23, 22, 26, 112, 243],
    corners: [33, 133],
    lids: [159, 145],
  },
  {
    outline: LEFT_EYE,
    rings: [...LEFT_EYE, 467, 260, 259, 257, 258, 286, 414, 359, 255, 339, 254, 253, 252, 256, 341, 463],
    corners: [263, 362],
    lids: [386, 374],
  },
] as const;
const EYE_SIZE = [0.84, 1.2] as const;
/** Largest rotation of an eye towards the source's, in radians. */
const EYE_TILT = 0.25;
/** Share of the source in the shape of the lids, from 0 to 1. */
const LID_SHAPE = 0.6;
/** Share of the target's own eye opening that is kept: 1 keeps it, 0 takes the source's. */
const OPENING_KEPT = 0.8;
/** Opening of an eye relative to its width, below which it is closed and above which it is open. */
const CLOSED_EYE = 0.08;
const OPEN_EYE = 0.16;

/**
 * Gives the mouth the place, width and lip thickness of the source. The inner edge of the lips keeps the target's
 * shape, which is its expression.
 * @param target x, y, z of each mesh point
 * @param posed the source's points in the target's pose
 */
export function shapeLips(target: Float32Array, posed: Float32Array, move: MovePoint): void {
  const centre = mean(target, LIP_POINTS);
  const place = mean(posed, LIP_POINTS);
  const across = between(target, MOUTH_CORNERS);
  const width = Math.max(1e-6, Math.hypot(across.x, across.y));
  const stretch = clamp(length(posed, MOUTH_CORNERS) / width, MOUTH_WIDTH) - 1;
  for (const [j, inner] of LIPS_INNER.entries()) {
    const at = pointAt(target, inner);
    const along = (((at.x - centre.x) * across.x + (at.y - centre.y) * across.y) / width ** 2) * stretch;
    const moveX = place.x - centre.x + along * across.x;
    const moveY = place.y - centre.y + along * across.y;
    for (const ring of LIP_RINGS) {
      const index = ring[j] as number;
      const own = between(target, [inner, index]);
      const other = between(posed, [inner, index]);
      move(index, moveX + other.x - own.x, moveY + other.y - own.y);
    }
  }
}

/**
 * Gives an eye the place, size and tilt of the source, and in part the shape of its lids. Its opening, which is
 * expression, nearly stays. A closed eye keeps its shape.
 */
export function shapeEye(
  target: Float32Array,
  posed: Float32Array,
  eye: (typeof EYES)[number],
  move: MovePoint,
): void {
  const { outline, rings, corners, lids } = eye;
  const centre = mean(target, outline);
  const place = mean(posed, outline);
  const own = between(target, corners);
  const other = between(posed, corners);
  const ownWidth = Math.max(1e-6, Math.hypot(own.x, own.y));
  const otherWidth = Math.max(1e-6, Math.hypot(other.x, other.y));
  const size = clamp(otherWidth / ownWidth, EYE_SIZE);
  const turn = Math.atan2(own.x * other.y - own.y * other.x, own.x * other.x + own.y * other.y);
  const tilt = clamp(turn, [-EYE_TILT, EYE_TILT]);
  const cos = Math.cos(tilt) * size;
  const sin = Math.sin(tilt) * size;
  const ownOpening = length(target, lids) / ownWidth;
  const otherOpening = length(posed, lids) / otherWidth;
  const open = smoothstep(CLOSED_EYE, OPEN_EYE, ownOpening) * smoothstep(CLOSED_EYE, OPEN_EYE, otherOpening);
  const share = LID_SHAPE * open;
  const squash = (ownOpening / Math.max(otherOpening, 1e-3)) ** OPENING_KEPT;
  const ux = other.x / otherWidth;
  const uy = other.y / otherWidth;
  for (const index of rings) {
    const p = pointAt(target, index);
    const px = p.x - centre.x;
    const py = p.y - centre.y;
    const q = pointAt(posed, index);
    const along = (q.x - place.x) * ux + (q.y - place.y) * uy;
    const upwards = ((q.y - place.y) * ux - (q.x - place.x) * uy) * squash;
    const newX = (cos * px - sin * py) * (1 - share) + (along * ux - upwards * uy) * share;
    const newY = (sin * px + cos * py) * (1 - share) + (along * uy + upwards * ux) * share;
    move(index, place.x + newX - p.x, place.y + newY - p.y);
  }
}

interface Vector {
  readonly x: number;
  readonly y: number;
}

function pointAt(points: Float32Array, index: number): Vector {
  return { x: points[index * 3] as number, y: points[index * 3 + 1] as number };
}

function between(points: Float32Array, [a, b]: readonly [number, number]): Vector {
  const p = pointAt(points, a);
  const q = pointAt(points, b);
  return { x: q.x - p.x, y: q.y - p.y };
}

function length(points: Float32Array, ends: readonly [number, number]): number {
  const { x, y } = between(points, ends);
  return Math.hypot(x, y);
}

function mean(points: Float32Array, group: readonly number[]): Vector {
  let x = 0;
  let y = 0;
  for (const index of group) {
    x += points[index * 3] as number;
    y += points[index * 3 + 1] as number;
  }
  return { x: x / group.length, y: y / group.length };
}

function clamp(value: number, [least, most]: readonly [number, number]): number {
  return Math.min(most, Math.max(least, value));
}
