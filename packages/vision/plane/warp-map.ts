import { LIPS_INNER } from '../face-regions.ts';
import { FACE_TRIANGLES } from '../face-topology.ts';
import { type Plane, plane } from './plane.ts';

/** Source position of each pixel of a grid; `covered` is 1 where it is known. */
export interface WarpMap {
  readonly x: Plane;
  readonly y: Plane;
  readonly covered: Plane;
}

/** The mouth opening, which the mesh omits, as a strip between the lips. */
export const MOUTH_TRIANGLES = mouthStrip();

function mouthStrip(): Uint16Array {
  // LIPS_INNER holds the lower lip from the right corner to the left one, then the upper lip back.
  const lower = LIPS_INNER.slice(0, 11);
  const upper = [LIPS_INNER[0], ...LIPS_INNER.slice(10).reverse()];
  const triangles: number[] = [];
  for (let i = 0; i + 1 < lower.length; i++) {
    const [a, b] = [lower[i] as number, lower[i + 1] as number];
    const [c, d] = [upper[i] as number, upper[i + 1] as number];
    if (a !== c) triangles.push(a, b, c);
    if (b !== d) triangles.push(b, d, c);
  }
  return Uint16Array.from(triangles);
}

export function emptyMap(width: number, height: number): WarpMap {
  return { x: plane(width, height), y: plane(width, height), covered: plane(width, height) };
}

/**
 * Draws the triangles at `to` and writes the affine interpolation of `from` into the map. It omits triangles seen
 * from behind; of several over one pixel, the nearest by `depth` wins.
 * @param to x, y of each point in pixels of the map, stride 2
 * @param from x, y of each point elsewhere, stride 2
 * @param depth z of each point at `to`, smaller is nearer
 */
export function drawTriangles(
  map: WarpMap,
  geometry: { to: Float32Array; from: Float32Array; depth: Float32Array },
  triangles: Uint16Array = FACE_TRIANGLES,
): void {
  const { to, from, depth } = geometry;
  const { width, height } = map.x;
  const [xs, ys, covered] = [map.x.data, map.y.data, map.covered.data];
  const order = farthestFirst(triangles, depth);
  for (const t of order) {
    const a = triangles[t * 3] as number;
    const b = triangles[t * 3 + 1] as number;
    const c = triangles[t * 3 + 2] as number;
    const ax = to[a * 2] as number;
    const ay = to[a * 2 + 1] as number;
    const bx = to[b * 2] as number;
    const by = to[b * 2 + 1] as number;
    const cx = to[c * 2] as number;
    const cy = to[c * 2 + 1] as number;
    const area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
    // The mesh winds one way when seen from the front (y down); thin mouth triangles may wind either way.
    if (triangles === FACE_TRIANGLES ? area > -1e-6 : Math.abs(area) < 1e-6) continue;
    const left = Math.max(0, Math.floor(Math.min(ax, bx, cx) - 0.5));
    const right = Math.min(width - 1, Math.ceil(Math.max(ax, bx, cx) - 0.5));
    const top = Math.max(0, Math.floor(Math.min(ay, by, cy) - 0.5));
    const bottom = Math.min(height - 1, Math.ceil(Math.max(ay, by, cy) - 0.5));
    const fax = from[a * 2] as number;
    const fay = from[a * 2 + 1] as number;
    const fbx = (from[b * 2] as number) - fax;
    const fby = (from[b * 2 + 1] as number) - fay;
    const fcx = (from[c * 2] as number) - fax;
    const fcy = (from[c * 2 + 1] as number) - fay;
    for (let y = top; y <= bottom; y++) {
      const dy = y + 0.5 - ay;
      for (let x = left; x <= right; x++) {
        const dx = x + 0.5 - ax;
        const u = (dx * (cy - ay) - dy * (cx - ax)) / area;
        const v = (dy * (bx - ax) - dx * (by - ay)) / area;
        if (u < -1e-4 || v < -1e-4 || u + v > 1.0001) continue;
        const i = y * width + x;
        xs[i] = fax + u * fbx + v * fcx;
        ys[i] = fay + u * fby + v * fcy;
        covered[i] = 1;
      }
    }
  }
}

/** Last drawing order of each list of triangles. It changes little between two frames of a video. */
const lastOrders = new WeakMap<Uint16Array, Uint16Array>();

/** Sorts triangles by depth, farthest first; equal depths keep the original order. */
function farthestFirst(triangles: Uint16Array, depth: Float32Array): Uint16Array {
  const count = triangles.length / 3;
  let order = lastOrders.get(triangles);
  if (!order) {
    order = Uint16Array.from({ length: count }, (_, t) => t);
    lastOrders.set(triangles, order);
  }
  const z = new Float64Array(count);
  for (let t = 0; t < count; t++) {
    const at = t * 3;
    z[t] =
      (depth[triangles[at] as number] as number) +
      (depth[triangles[at + 1] as number] as number) +
      (depth[triangles[at + 2] as number] as number);
  }
  // Insertion sort: nearly all triangles are already in place.
  for (let i = 1; i < count; i++) {
    const t = order[i] as number;
    const own = z[t] as number;
    let j = i - 1;
    for (; j >= 0; j--) {
      const other = order[j] as number;
      const far = z[other] as number;
      if (far > own || (far === own && other < t)) break;
      order[j + 1] = other;
    }
    order[j + 1] = t;
  }
  return order;
}
