import { FACE_TRIANGLES } from '@semblance/vision/face-topology';
import { cross, type HeadFrame, sub, unit, type Vec } from './head-frame.ts';
import { type Grid, onGrid } from './layer.ts';

/** Surface over a rectangle: `rows` × `columns` points in units of the head. */
export interface Sheet {
  readonly rows: number;
  readonly columns: number;
  readonly points: Vec[];
}

/** Visible surfaces on a grid: for each sample the nearest one's depth, place on the sheet, and normal. */
export interface Drawn {
  /** Depth in picture pixels; Infinity where nothing is. */
  readonly z: Float32Array;
  readonly u: Float32Array;
  readonly v: Float32Array;
  /** Normal towards the viewer in units of the head, three values to a sample. */
  readonly normal: Float32Array;
}

/** Returns a sheet of finer points through rows of control points (Catmull–Rom in both directions). */
export function smoothSheet(control: readonly (readonly Vec[])[], rows: number, columns: number): Sheet {
  const across = control.map((row) => resampled(row, columns));
  const points: Vec[] = new Array(rows * columns);
  for (let c = 0; c < columns; c++) {
    const down = resampled(
      across.map((row) => row[c] as Vec),
      rows,
    );
    for (let r = 0; r < rows; r++) points[r * columns + c] = down[r] as Vec;
  }
  return { rows, columns, points };
}

/** Returns evenly spaced points of the Catmull–Rom curve through given ones. */
export function resampled(line: readonly Vec[], count: number): Vec[] {
  return Array.from({ length: count }, (_, k) => {
    const place = (k / (count - 1)) * (line.length - 1);
    const i = Math.min(line.length - 2, Math.floor(place));
    const t = place - i;
    const at = (n: number): Vec => line[Math.min(line.length - 1, Math.max(0, n))] as Vec;
    const [a, b, c, d] = [at(i - 1), at(i), at(i + 1), at(i + 2)];
    return [0, 1, 2].map((k2) => {
      const [p, q, r, s] = [a, b, c, d].map((point) => point[k2] as number) as [
        number,
        number,
        number,
        number,
      ];
      return q + 0.5 * t * (r - p + t * (2 * p - 5 * q + 4 * r - s + t * (3 * (q - r) + s - p)));
    }) as unknown as Vec;
  });
}

/** Returns the normal of each point of a sheet, turned towards the viewer's side (negative z). */
export function sheetNormals(sheet: Sheet): Vec[] {
  const { rows, columns, points } = sheet;
  const at = (r: number, c: number): Vec =>
    points[Math.min(rows - 1, Math.max(0, r)) * columns + Math.min(columns - 1, Math.max(0, c))] as Vec;
  return points.map((_, i) => {
    const [r, c] = [Math.floor(i / columns), i % columns];
    return unit(cross(sub(at(r + 1, c), at(r - 1, c)), sub(at(r, c + 1), at(r, c - 1))));
  });
}

export function drawSheet(sheet: Sheet, grid: Grid, head: HeadFrame): Drawn {
  const { rows, columns, points } = sheet;
  const triangles: number[] = [];
  for (let r = 0; r + 1 < rows; r++) {
    for (let c = 0; c + 1 < columns; c++) {
      const i = r * columns + c;
      triangles.push(i, i + columns, i + 1, i + 1, i + columns, i + columns + 1);
    }
  }
  const place = points.map((_, i) => [(i % columns) / (columns - 1), Math.floor(i / columns) / (rows - 1)]);
  const spots = points.map((point): Vec => onGrid(grid, head, point));
  return drawTriangles({ spots, normals: sheetNormals(sheet), place, triangles }, grid);
}

/** Returns the depth of the face on a grid, in picture pixels; Infinity beside the face. */
export function faceDepth(head: HeadFrame, grid: Grid): Float32Array {
  const points = head.points();
  return drawFace(
    points.map((point) => onGrid(grid, head, point)),
    grid,
  );
}

/** Samples per unit of {@link faceFront}. */
const FRONT = 100;

/** Returns a function of x and y in units of the head: the z of the face there, Infinity beside it. */
export function faceFront(head: HeadFrame): (x: number, y: number) => number {
  const size = { width: 2 * FRONT, height: 3 * FRONT };
  const z = drawFace(
    head.points().map(([x, y, depth]): Vec => [(x + 1) * FRONT, (y + 1) * FRONT, depth]),
    size,
  );
  return (x, y) => {
    const [u, v] = [Math.floor((x + 1) * FRONT), Math.floor((y + 1) * FRONT)];
    return u < 0 || v < 0 || u >= size.width || v >= size.height
      ? Infinity
      : (z[v * size.width + u] as number);
  };
}

function drawFace(spots: readonly Vec[], size: { width: number; height: number }): Float32Array {
  const normals = spots.map((): Vec => [0, 0, -1]);
  const place = spots.map(() => [0, 0]);
  return drawTriangles({ spots, normals, place, triangles: FACE_TRIANGLES }, size).z;
}

/**
 * Lays a sheet over the face like stretched cloth: each point moves to the middle of its neighbours and stays at
 * least `margin` in front of the face. The border stays where it is.
 */
export function drape(sheet: Sheet, head: HeadFrame, margin: number, rounds = 60): Sheet {
  const front = faceFront(head);
  const { rows, columns, points } = sheet;
  const z = Float64Array.from(points, (point) => point[2]);
  const limit = Float64Array.from(points, ([x, y]) => front(x, y) - margin);
  for (let round = 0; round < rounds; round++) {
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < columns; c++) {
        const i = r * columns + c;
        const inner = r > 0 && c > 0 && r + 1 < rows && c + 1 < columns;
        const mean = inner
          ? ((z[i - 1] as number) +
              (z[i + 1] as number) +
              (z[i - columns] as number) +
              (z[i + columns] as number)) /
            4
          : (z[i] as number);
        z[i] = Math.min(mean, limit[i] as number);
      }
    }
  }
  return { rows, columns, points: points.map(([x, y], i) => [x, y, z[i] as number]) };
}

interface Mesh {
  readonly spots: readonly Vec[];
  readonly normals: readonly Vec[];
  readonly place: readonly (readonly number[])[];
  readonly triangles: ArrayLike<number>;
}

/** Draws triangles with a depth buffer; of several over one sample, the nearest wins. */
function drawTriangles(mesh: Mesh, size: { width: number; height: number }): Drawn {
  const { spots, normals, place, triangles } = mesh;
  const count = size.width * size.height;
  const out: Drawn = {
    z: new Float32Array(count).fill(Infinity),
    u: new Float32Array(count),
    v: new Float32Array(count),
    normal: new Float32Array(count * 3),
  };
  for (let t = 0; t < triangles.length; t += 3) {
    const ids = [triangles[t] as number, triangles[t + 1] as number, triangles[t + 2] as number] as const;
    const [a, b, c] = ids.map((id) => spots[id]) as [Vec, Vec, Vec];
    const area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
    if (Math.abs(area) < 1e-9) continue;
    const right = Math.min(size.width - 1, Math.floor(Math.max(a[0], b[0], c[0])));
    const bottom = Math.min(size.height - 1, Math.floor(Math.max(a[1], b[1], c[1])));
    for (let y = Math.max(0, Math.floor(Math.min(a[1], b[1], c[1]))); y <= bottom; y++) {
      for (let x = Math.max(0, Math.floor(Math.min(a[0], b[0], c[0]))); x <= right; x++) {
        const [dx, dy] = [x + 0.5 - a[0], y + 0.5 - a[1]];
        const p = (dx * (c[1] - a[1]) - dy * (c[0] - a[0])) / area;
        const q = (dy * (b[0] - a[0]) - dx * (b[1] - a[1])) / area;
        if (p < -1e-4 || q < -1e-4 || p + q > 1.0001) continue;
        const weights = [1 - p - q, p, q];
        const z = a[2] * (1 - p - q) + b[2] * p + c[2] * q;
        const i = y * size.width + x;
        if (z >= (out.z[i] as number)) continue;
        out.z[i] = z;
        const sum = (read: (id: number) => number): number =>
          ids.reduce((total, id, k) => total + read(id) * (weights[k] as number), 0);
        out.u[i] = sum((id) => place[id]?.[0] as number);
        out.v[i] = sum((id) => place[id]?.[1] as number);
        for (let k = 0; k < 3; k++) out.normal[i * 3 + k] = sum((id) => normals[id]?.[k] as number);
      }
    }
  }
  return out;
}
