import { type Face, pointOf } from '@semblance/vision/face-mesh';
import { FACE_OVAL, FACE_SIDES } from '@semblance/vision/face-regions';
import { smoothstep } from '@semblance/vision/plane/plane';
import { JAW } from './jaw.ts';
import { type Layer, type Moves, warpLayer } from './warp-layer.ts';

const [RIGHT_SIDE, LEFT_SIDE] = FACE_SIDES;
const NOSE_TIP = 1;

/**
 * Part of the way from the middle of the face to its outline at which the move begins, and where it ends beyond the
 * outline. The mouth, which is at half of it, does not move.
 */
const BEGINS = 0.55;
const ENDS = 1.5;
/** Nodes of the grid of moves per face width. */
const NODES = 24;
/** Distance from the border of the picture over which nothing moves, in face widths. */
const BORDER = 0.15;

/** Returns the part of a picture that the moves of a jaw may change, in pixels. */
export function jawBox({ points, width }: Pick<Face, 'points' | 'width'>): {
  x: number;
  y: number;
  width: number;
  height: number;
} {
  // Half the width, and the chin is a little further from the middle.
  const margin = (ENDS - 1) * 0.65 * width;
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const index of JAW) {
    const { x, y } = pointOf(points, index);
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  return {
    x: left - margin,
    y: top - margin,
    width: right - left + 2 * margin,
    height: bottom - top + 2 * margin,
  };
}

/**
 * Moves the jaw of a picture, in place, and what is close to it with it: neck and background follow ever less up to
 * {@link ENDS}.
 * @param moves as {@link jawMoves} returns them
 * @param size of the picture in pixels
 * @param share of the moves at each point of {@link JAW}, 0–1
 */
export function moveJaw(
  layers: readonly Layer[],
  face: Face,
  size: { readonly width: number; readonly height: number },
  moves: Float32Array,
  share: (n: number) => number,
): void {
  const scaled = moves.slice();
  let most = 0;
  for (let n = 0; n < JAW.length; n++) {
    const by =
      ((share(Math.max(0, n - 1)) + share(n) + share(Math.min(JAW.length - 1, n + 1))) / 3) * face.width;
    for (const k of [n * 2, n * 2 + 1]) {
      scaled[k] = (scaled[k] as number) * by;
      most = Math.max(most, Math.abs(scaled[k] as number));
    }
  }
  if (most < LEAST_MOVE) return;
  const grid = gridOf(face, size, scaled);
  for (const layer of layers) warpLayer(layer, grid);
}

/** Part of the way from the outline to the tip of the nose. */
const INSIDE = 0.15;

/** Returns a place a little inside the outline at a point of {@link JAW}, in pixels. */
export function insideJaw({ points }: Pick<Face, 'points'>, n: number): { x: number; y: number } {
  const [outline, nose] = [pointOf(points, JAW[n] as number), pointOf(points, NOSE_TIP)];
  return { x: outline.x + (nose.x - outline.x) * INSIDE, y: outline.y + (nose.y - outline.y) * INSIDE };
}

/** Largest move of a point below which nothing is moved, in pixels. */
const LEAST_MOVE = 0.3;
/** Steps around the face in which its outline is read. */
const ANGLES = 180;
/** Places on each side of the outline, of which there are 36: none spans more than a fifth of the way around. */
const ALONG = ANGLES / 5;

/** Radius of the outline and move of the jaw by angle about the middle of the face, in pixels. */
interface Around {
  readonly x: number;
  readonly y: number;
  readonly radius: Float32Array;
  readonly moveX: Float32Array;
  readonly moveY: Float32Array;
}

function gridOf(
  face: Face,
  size: { readonly width: number; readonly height: number },
  moves: Float32Array,
): Moves {
  const around = aroundOf(face, moves);
  const step = Math.max(1, face.width / NODES);
  const box = jawBox(face);
  const left = Math.max(0, Math.floor(box.x));
  const top = Math.max(0, Math.floor(box.y));
  const columns = Math.max(1, Math.ceil((Math.min(size.width, box.x + box.width) - left) / step) + 1);
  const rows = Math.max(1, Math.ceil((Math.min(size.height, box.y + box.height) - top) / step) + 1);
  const from = new Float32Array(columns * rows * 2);
  const move = new Float32Array(2);
  const edge = (x: number, y: number): number =>
    smoothstep(0, BORDER * face.width, Math.min(x, y, size.width - x, size.height - y));
  for (let j = 0; j < rows; j++) {
    for (let i = 0; i < columns; i++) {
      const x = left + i * step;
      const y = top + j * step;
      // What comes to this node moved from one nearby, whose move is nearly the same.
      moveAt(around, x, y, move);
      const share = edge(x, y);
      from[(j * columns + i) * 2] = -(move[0] as number) * share;
      from[(j * columns + i) * 2 + 1] = -(move[1] as number) * share;
    }
  }
  return { left, top, step, columns, rows, from };
}

function aroundOf({ points, roll }: Face, moves: Float32Array): Around {
  const [a, b, nose] = [RIGHT_SIDE, LEFT_SIDE, NOSE_TIP].map((index) => pointOf(points, index)) as [
    { x: number; y: number },
    { x: number; y: number },
    { x: number; y: number },
  ];
  const [x, y] = [(a.x + b.x) / 4 + nose.x / 2, (a.y + b.y) / 4 + nose.y / 2];
  const radius = new Float32Array(ANGLES);
  const moveX = new Float32Array(ANGLES);
  const moveY = new Float32Array(ANGLES);
  const [cos, sin] = [Math.cos(roll), Math.sin(roll)];
  const moveOf = (index: number): readonly [number, number] => {
    const n = JAW.indexOf(index);
    if (n < 0) return [0, 0];
    const [right, down] = [moves[n * 2] as number, moves[n * 2 + 1] as number];
    return [cos * right - sin * down, sin * right + cos * down];
  };
  for (const [k, index] of FACE_OVAL.entries()) {
    const next = FACE_OVAL[(k + 1) % FACE_OVAL.length] as number;
    const [p, q] = [pointOf(points, index), pointOf(points, next)];
    const [from, to] = [moveOf(index), moveOf(next)];
    for (let s = 0; s < ALONG; s++) {
      const u = s / ALONG;
      const [dx, dy] = [p.x + (q.x - p.x) * u - x, p.y + (q.y - p.y) * u - y];
      const at = Math.floor(angleOf(dx, dy));
      radius[at] = Math.max(radius[at] as number, Math.hypot(dx, dy));
      moveX[at] = from[0] + (to[0] - from[0]) * u;
      moveY[at] = from[1] + (to[1] - from[1]) * u;
    }
  }
  return { x, y, radius: smoothed(radius), moveX: smoothed(moveX), moveY: smoothed(moveY) };
}

/** Returns an angle in steps, from 0 to below {@link ANGLES}. */
function angleOf(dx: number, dy: number): number {
  const turn = Math.atan2(dy, dx) / (2 * Math.PI);
  return ((turn < 0 ? turn + 1 : turn) * ANGLES) % ANGLES;
}

/** Averages over seven steps, three times, around the circle. */
function smoothed(values: Float32Array): Float32Array {
  let from = values;
  for (let pass = 0; pass < 3; pass++) {
    const out = new Float32Array(ANGLES);
    for (let at = 0; at < ANGLES; at++) {
      let sum = 0;
      for (let k = -3; k <= 3; k++) sum += from[(at + k + ANGLES) % ANGLES] as number;
      out[at] = sum / 7;
    }
    from = out;
  }
  return from;
}

function moveAt({ x, y, radius, moveX, moveY }: Around, px: number, py: number, out: Float32Array): void {
  const [dx, dy] = [px - x, py - y];
  const angle = angleOf(dx, dy);
  const at = angle | 0;
  const next = (at + 1) % ANGLES;
  const u = angle - at;
  const mix = (values: Float32Array): number =>
    (values[at] as number) * (1 - u) + (values[next] as number) * u;
  const out1 = Math.hypot(dx, dy) / mix(radius);
  const weight = out1 < 1 ? smoothstep(BEGINS, 1, out1) : 1 - smoothstep(1, ENDS, out1);
  out[0] = weight * mix(moveX);
  out[1] = weight * mix(moveY);
}
