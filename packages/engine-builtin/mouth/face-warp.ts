import { POINTS } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LIPS_OUTER } from '@semblance/vision/face-regions';
import { FACE_TRIANGLES } from '@semblance/vision/face-topology';
import { smoothstep } from '@semblance/vision/plane/plane';
import { RING_POINTS } from './lip-rings.ts';

/** The part of the outline from one ear under the chin to the other, beyond which the neck stretches. */
const JAW_LINE = FACE_OVAL.slice(8, 29);
/** Width of that part of the neck, in IOD. */
const NECK = 0.34;
/** Distance above and below the lips over which the skin follows them, in IOD. */
const REACH_UP = 0.34;
const REACH_DOWN = 0.5;

const LIP_SET = new Set(RING_POINTS);

/** Number of warped vertices: the mesh, then one on the neck for each point of the jaw line. */
export const VERTICES = POINTS + JAW_LINE.length;
const TRIANGLES = Uint16Array.from([...FACE_TRIANGLES, ...neckTriangles()]);

function neckTriangles(): number[] {
  return JAW_LINE.slice(1).flatMap((next, i) => {
    const point = JAW_LINE[i] as number;
    const [a, b] = [POINTS + i, POINTS + i + 1];
    return [point, next, a, next, b, a];
  });
}

/** Returns all vertices: the mesh's, and those on the neck. x, y, z in the face's own frame. */
export function withNeck(own: Float32Array): Float32Array {
  const out = new Float32Array(VERTICES * 3);
  out.set(own);
  const y0 = own[1 * 3 + 1] as number;
  JAW_LINE.forEach((index, i) => {
    const x = own[index * 3] as number;
    const y = own[index * 3 + 1] as number;
    const length = Math.max(1e-3, Math.hypot(x, y - y0));
    out[(POINTS + i) * 3] = x + (NECK * x) / length;
    out[(POINTS + i) * 3 + 1] = y + (NECK * (y - y0)) / length;
    out[(POINTS + i) * 3 + 2] = own[index * 3 + 2] as number;
  });
  return out;
}

/**
 * Returns the motion of each vertex when the lips move to new places and the chin goes down: x, y in the face's own
 * frame. Eyes, nose and forehead do not move.
 * @param own vertices of {@link withNeck}
 * @param lips x, y of the new place of each ring point
 * @param jaw distance that the chin moves
 */
export function moveFace(own: Float32Array, lips: Float32Array, jaw: number): Float32Array {
  const moves = new Float32Array(VERTICES * 2);
  const x = (v: number): number => own[v * 3] as number;
  const y = (v: number): number => own[v * 3 + 1] as number;
  RING_POINTS.forEach((v, i) => {
    moves[v * 2] = (lips[i * 2] as number) - x(v);
    moves[v * 2 + 1] = (lips[i * 2 + 1] as number) - y(v);
  });
  const mouthY = (y(61) + y(291)) / 2;
  const noseY = y(2);
  const chinY = y(152);
  for (let v = 0; v < POINTS; v++) {
    if (LIP_SET.has(v)) continue;
    let near = Infinity;
    let [sum, sx, sy] = [0, 0, 0];
    for (const lip of LIPS_OUTER) {
      const squared = (x(v) - x(lip)) ** 2 + (y(v) - y(lip)) ** 2;
      near = Math.min(near, squared);
      const weight = 1 / (squared + 1e-3) ** 2;
      sum += weight;
      sx += weight * (moves[lip * 2] as number);
      sy += weight * (moves[lip * 2 + 1] as number);
    }
    const below = smoothstep(mouthY - 0.1, mouthY + 0.1, y(v));
    const reach = REACH_UP + (REACH_DOWN - REACH_UP) * below;
    const withLips = 1 - smoothstep(0, reach, Math.sqrt(near));
    const free = smoothstep(noseY - 0.02, noseY + 0.1, y(v));
    const withJaw =
      smoothstep(mouthY - 0.15, chinY - 0.15, y(v)) * (1 - 0.75 * smoothstep(0.3, 1, Math.abs(x(v))));
    moves[v * 2] = free * withLips * (sx / sum);
    moves[v * 2 + 1] = free * withLips * (sy / sum) + (1 - withLips) * withJaw * jaw;
  }
  return moves;
}

/** Returns the corners of the triangles with a vertex that moves by more than `least`, three per triangle. */
export function movedTriangles(moves: Float32Array, least: number): Uint16Array {
  const moved = (v: number): boolean =>
    Math.abs(moves[v * 2] as number) > least || Math.abs(moves[v * 2 + 1] as number) > least;
  const out: number[] = [];
  for (let t = 0; t < TRIANGLES.length; t += 3) {
    const [a, b, c] = [TRIANGLES[t] as number, TRIANGLES[t + 1] as number, TRIANGLES[t + 2] as number];
    if (moved(a) || moved(b) || moved(c)) out.push(a, b, c);
  }
  return Uint16Array.from(out);
}
