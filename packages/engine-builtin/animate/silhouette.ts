import type { BytePlane } from './raster.ts';
import type { ClipBox } from './triangle-spans.ts';

/** Edges of a face, each with the triangles on both sides. */
export interface FaceEdges {
  /** Corners of the triangles: the face's own first, then those around it. */
  readonly triangles: Uint16Array;
  /** Both corners of an edge, then both triangles: four numbers per edge. */
  readonly edges: Int32Array;
}

/** Returns the edges between triangles of a face, and between those and the surrounding triangles. */
export function faceEdges(face: Uint16Array, around: readonly Uint16Array[]): FaceEdges {
  const triangles = Uint16Array.from([face, ...around].flatMap((list) => [...list]));
  const open = new Map<number, number>();
  const edges: number[] = [];
  for (let t = 0; t < triangles.length; t += 3) {
    for (let k = 0; k < 3; k++) {
      const a = triangles[t + k] as number;
      const b = triangles[t + ((k + 1) % 3)] as number;
      const key = Math.min(a, b) * 65_536 + Math.max(a, b);
      const other = open.get(key);
      if (other === undefined) open.set(key, t);
      else if (other < face.length) edges.push(a, b, other / 3, t / 3);
    }
  }
  return { triangles, edges: Int32Array.from(edges) };
}

/**
 * Smooths the edges at which a head hides the background: between a triangle that faces the viewer and one that
 * faces away. Triangles consist of whole pixels, which is invisible inside the head but makes stairs at these
 * edges.
 * @param box outside it nothing changes
 * @param moved places of the corners on the plane, x and y in turn
 */
export function smoothSilhouette(
  plane: BytePlane,
  box: ClipBox,
  moved: Float32Array,
  { triangles, edges }: FaceEdges,
): void {
  const facing = new Uint8Array(triangles.length / 3);
  for (let t = 0; t < facing.length; t++) {
    const a = (triangles[t * 3] as number) * 2;
    const b = (triangles[t * 3 + 1] as number) * 2;
    const c = (triangles[t * 3 + 2] as number) * 2;
    const ax = moved[a] as number;
    const ay = moved[a + 1] as number;
    const area =
      ((moved[b] as number) - ax) * ((moved[c + 1] as number) - ay) -
      ((moved[b + 1] as number) - ay) * ((moved[c] as number) - ax);
    facing[t] = area < -1e-6 ? 1 : 0;
  }
  const { width, height, data } = plane;
  const within = {
    left: Math.max(1, box.left),
    top: Math.max(1, box.top),
    right: Math.min(width - 1, box.right),
    bottom: Math.min(height - 1, box.bottom),
  };
  const places = new Set<number>();
  for (let e = 0; e < edges.length; e += 4) {
    if (facing[edges[e + 2] as number] === facing[edges[e + 3] as number]) continue;
    const a = (edges[e] as number) * 2;
    const b = (edges[e + 1] as number) * 2;
    const from = { x: moved[a] as number, y: moved[a + 1] as number };
    const to = { x: moved[b] as number, y: moved[b + 1] as number };
    walk(from, to, (x, y) => {
      if (x >= within.left && y >= within.top && x < within.right && y < within.bottom)
        places.add(y * width + x);
    });
  }
  const smooth = Uint8Array.from(places, (i) => {
    const row = (o: number): number =>
      (data[o - 1] as number) + 2 * (data[o] as number) + (data[o + 1] as number);
    return (row(i - width) + 2 * row(i) + row(i + width) + 8) >> 4;
  });
  let k = 0;
  for (const i of places) data[i] = smooth[k++] as number;
}

interface Point {
  readonly x: number;
  readonly y: number;
}

/** Calls `pixel` for the pixels along a line and those beside them. */
function walk(from: Point, to: Point, pixel: (x: number, y: number) => void): void {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const steps = Math.max(1, Math.ceil(2 * Math.hypot(dx, dy)));
  // The neighbours of a steep line are left and right of it, those of a flat one above and below.
  const steep = Math.abs(dy) > Math.abs(dx);
  for (let s = 0; s <= steps; s++) {
    const x = Math.floor(from.x + (dx * s) / steps);
    const y = Math.floor(from.y + (dy * s) / steps);
    for (let d = -1; d <= 1; d++) pixel(steep ? x + d : x, steep ? y : y + d);
  }
}
