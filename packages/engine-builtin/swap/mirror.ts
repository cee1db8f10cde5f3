import { POINTS } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { FACE_TRIANGLES } from '@semblance/vision/face-topology';
import { drawTriangles, emptyMap, type WarpMap } from '@semblance/vision/plane/warp-map';

/**
 * For each mesh point the mirrored point on the other side of the face; points on the middle line are their own
 * mirror images. The search starts at the outline, whose two sides are known, and goes from triangle to triangle:
 * the points opposite the same edge mirror each other. Twelve triangles divide their square along the other
 * diagonal, so the majority of edges decides.
 */
export const MIRRORED: Uint16Array = followed();

function followed(): Uint16Array {
  const key = (a: number, b: number): number => a * POINTS + b;
  // For each directed edge, the third corner of its triangle.
  const opposite = new Map<number, number>();
  for (let t = 0; t < FACE_TRIANGLES.length; t += 3) {
    const [a, b, c] = [0, 1, 2].map((k) => FACE_TRIANGLES[t + k] as number) as [number, number, number];
    opposite.set(key(a, b), c).set(key(b, c), a).set(key(c, a), b);
  }
  const other = new Int32Array(POINTS).fill(-1);
  FACE_OVAL.forEach((point, k) => {
    other[point] = FACE_OVAL[(FACE_OVAL.length - k) % FACE_OVAL.length] as number;
  });
  for (let left = POINTS; left > 0; ) {
    const votes = new Map<number, number>();
    for (const [edge, point] of opposite) {
      const a = other[Math.floor(edge / POINTS)] as number;
      const b = other[edge % POINTS] as number;
      const found = a < 0 || b < 0 ? undefined : opposite.get(key(b, a));
      if (other[point] !== -1 || found === undefined || other[found] !== -1) continue;
      votes.set(key(point, found), (votes.get(key(point, found)) ?? 0) + 1);
    }
    const strength = (pair: number): number =>
      (votes.get(pair) ?? 0) + (votes.get(key(pair % POINTS, Math.floor(pair / POINTS))) ?? 0);
    const most = Math.max(...[...votes.keys()].map(strength));
    left = 0;
    for (const pair of votes.keys()) {
      const [a, b] = [Math.floor(pair / POINTS), pair % POINTS];
      if (strength(pair) < most || other[a] !== -1 || other[b] !== -1) continue;
      other[a] = b;
      other[b] = a;
    }
    for (const point of other) if (point === -1) left++;
  }
  return Uint16Array.from(other);
}

/**
 * Returns for each grid pixel of a face the place that its mirror image shows.
 * @param points mesh points, stride 3
 */
export function mirrorMap(points: Float32Array, size: { width: number; height: number }): WarpMap {
  const to = new Float32Array(POINTS * 2);
  const from = new Float32Array(POINTS * 2);
  const depth = new Float32Array(POINTS);
  for (let i = 0; i < POINTS; i++) {
    const other = MIRRORED[i] as number;
    for (const k of [0, 1]) {
      to[i * 2 + k] = points[i * 3 + k] as number;
      from[i * 2 + k] = points[other * 3 + k] as number;
    }
    depth[i] = points[i * 3 + 2] as number;
  }
  const map = emptyMap(size.width, size.height);
  drawTriangles(map, { to, from, depth });
  return map;
}
