import type { CropSource, Face } from './face-mesh.ts';
import { LEFT_LENS, RIGHT_LENS } from './face-regions.ts';
import { type CropTransform, type Point, squareCrop, toCrop, toPicture } from './picture.ts';
import { type Plane, plane } from './plane/plane.ts';

/** Side of the crop in which lines are looked for, in pixels, and in face widths. */
const SIZE = 224;
const CROP = 1.15;
const WIDTH = SIZE / CROP;
/** Distances above and below a line at which its surroundings are compared, in pixels. */
const BESIDE = [2, 3, 4] as const;
/** Contrast from which a line is as clear as can be, and what a step to the next row costs, as shares of it. */
const CLEAR = 12;
const STEP = 0.3;
/** Share of a line that may be less clear than the line is said to be, because highlights interrupt it. */
const INTERRUPTED = 0.2;

/** Mesh points of the corners of the eyes and of the ends of the temples. */
const INNER = [133, 362] as const;
const OUTER = [33, 263] as const;
const ENDS = [127, 356] as const;
/** Parts of the way between the eyes that are left out, and heights around the eyes that count, in face widths. */
const BESIDE_NOSE = 0.22;
const BRIDGE_HEIGHTS = [-0.11, 0.09] as const;
const TEMPLE_HEIGHTS = [-0.13, 0.05] as const;

/**
 * Share of the bridge or a lens that the network for frames suspects, from which lines may be a frame; how clearly they
 * must be seen; and the sum of both, with the share's weight, that a frame has (measured).
 */
const SUSPECTED = 0.002;
const LEAST_SEEN = 0.55;
const WEIGHT = 11;
const LEAST_SUM = 0.96;
/** Half the width of a drawn line, in pixels of a plane of 96. */
const LINE = 0.8;

/** Thin lines where glasses lie. */
export interface ThinLines {
  /** How clearly the bridge and both temples are seen, 0–1. */
  readonly seen: number;
  /** The lines over the nose and both temples, in pixels of the picture. */
  readonly lines: readonly (readonly Point[])[];
}

/**
 * Looks for what is seen of glasses without rims: a line over the nose between the eyes, and one from each eye to the
 * ear, darker or brighter than what is above and below. Each is the clearest way across (dynamic programming). Wrinkles
 * between the brows and beside the eyes may look the same.
 */
export function thinLines(source: CropSource, face: Face): ThinLines {
  let [x, y] = [0, 0];
  for (const i of [...INNER, ...OUTER]) {
    x += (face.points[i * 3] as number) / 4;
    y += (face.points[i * 3 + 1] as number) / 4;
  }
  const crop = squareCrop({ x, y }, CROP * face.width, face.roll, SIZE);
  const light = luma(source(crop, SIZE));
  const at = (i: number): Point =>
    toCrop(crop, face.points[i * 3] as number, face.points[i * 3 + 1] as number);
  const [a, b] = INNER.map(at) as [Point, Point];
  const gap = b.x - a.x;
  const middle = (a.y + b.y) / 2;
  const found = [
    wayAcross(light, [a.x + BESIDE_NOSE * gap, b.x - BESIDE_NOSE * gap], around(middle, BRIDGE_HEIGHTS)),
    ...([0, 1] as const).map((side) => {
      const [eye, end] = [at(OUTER[side]), at(ENDS[side])];
      const columns = [Math.min(eye.x, end.x) + 0.01 * WIDTH, Math.max(eye.x, end.x) - 0.02 * WIDTH] as const;
      return wayAcross(light, columns, around(eye.y, TEMPLE_HEIGHTS));
    }),
  ];
  return {
    seen: found.reduce((sum, { seen }) => sum + seen, 0) / found.length,
    lines: found.map(({ way }) => way.map((point) => placed(crop, point))),
  };
}

/**
 * Returns a plane with 1 on the lines of glasses without rims and around where their lenses must be; undefined where
 * nobody wears any.
 * @param suspected shares of the bridge and both lenses that the network suspects to be covered by a frame
 * @param crop of the plane, whose side is `size` pixels
 */
export function thinFrame(
  source: CropSource,
  face: Face,
  { suspected, crop, size }: { suspected: readonly number[]; crop: CropTransform; size: number },
): Plane | undefined {
  const share = Math.max(...suspected);
  if (share < SUSPECTED) return undefined;
  const { seen, lines } = thinLines(source, face);
  if (seen < LEAST_SEEN || seen + WEIGHT * share < LEAST_SUM) return undefined;
  const out = plane(size, size);
  const corners = (outline: readonly number[]): Point[] =>
    [...outline, outline[0] as number].map((i) => ({
      x: face.points[i * 3] as number,
      y: face.points[i * 3 + 1] as number,
    }));
  for (const line of [...lines, corners(RIGHT_LENS), corners(LEFT_LENS)])
    drawLine(
      out,
      line.map(({ x, y }) => toCrop(crop, x, y)),
    );
  return out;
}

/** Sets the pixels beside a line through some points to 1. */
function drawLine({ width, height, data }: Plane, line: readonly Point[]): void {
  for (const [k, to] of line.entries()) {
    const from = line[Math.max(0, k - 1)] as Point;
    const steps = Math.max(1, Math.ceil(2 * Math.hypot(to.x - from.x, to.y - from.y)));
    for (let s = 0; s <= steps; s++) {
      const x = from.x + ((to.x - from.x) * s) / steps;
      const y = from.y + ((to.y - from.y) * s) / steps;
      for (let row = Math.floor(y - LINE); row <= y + LINE; row++)
        for (let column = Math.floor(x - LINE); column <= x + LINE; column++) {
          if (row < 0 || column < 0 || row >= height || column >= width) continue;
          if (Math.hypot(column + 0.5 - x, row + 0.5 - y) <= LINE) data[row * width + column] = 1;
        }
    }
  }
}

const around = (y: number, [above, below]: readonly [number, number]): [number, number] => [
  y + above * WIDTH,
  y + below * WIDTH,
];

const placed = (crop: CropTransform, { x, y }: Point): Point => toPicture(crop, x + 0.5, y + 0.5);

function luma(rgb: Float32Array): Float32Array {
  return Float32Array.from(
    { length: SIZE * SIZE },
    (_, i) =>
      0.299 * (rgb[i * 3] as number) +
      0.587 * (rgb[i * 3 + 1] as number) +
      0.114 * (rgb[i * 3 + 2] as number),
  );
}

/** Returns how much brighter (above 0) or darker a place is than what is above and below it, relative to its light. */
function ridge(light: Float32Array, x: number, y: number): number {
  const at = (column: number, row: number): number => light[inside(row) * SIZE + inside(column)] as number;
  let best = 0;
  for (const beside of BESIDE) {
    let sum = 0;
    for (let column = x - 1; column <= x + 1; column++) {
      const here = at(column, y);
      const [above, below] = [here - at(column, y - beside), here - at(column, y + beside)];
      if (above > 0 && below > 0) sum += Math.min(above, below);
      else if (above < 0 && below < 0) sum += Math.max(above, below);
    }
    if (Math.abs(sum / 3) > Math.abs(best)) best = sum / 3;
  }
  return (60 * best) / (20 + 0.35 * at(x, y));
}

const inside = (i: number): number => Math.max(0, Math.min(SIZE - 1, i));

/** Returns the clearest line across some columns within some rows, and how clear it is, 0–1. */
function wayAcross(
  light: Float32Array,
  [left, right]: readonly [number, number],
  [top, bottom]: readonly [number, number],
): { seen: number; way: Point[] } {
  const [x, y] = [Math.round(left), Math.round(top)];
  const [columns, rows] = [Math.round(right) - x + 1, Math.round(bottom) - y + 1];
  let best: { seen: number; way: Point[] } = { seen: 0, way: [] };
  if (columns < 4 || rows < 3) return best;
  const ridges = Float32Array.from({ length: columns * rows }, (_, i) =>
    ridge(light, x + Math.floor(i / rows), y + (i % rows)),
  );
  for (const sign of [1, -1]) {
    const clear = ridges.map((value) => Math.min(CLEAR, Math.max(0, sign * value)));
    const way = clearestWay(clear, columns, rows);
    const values = way.map((row, column) => clear[column * rows + row] as number).sort((p, q) => p - q);
    const seen = (values[Math.floor(INTERRUPTED * columns)] as number) / CLEAR;
    if (seen > best.seen) best = { seen, way: way.map((row, column) => ({ x: x + column, y: y + row })) };
  }
  return best;
}

/** Returns the row in each column of the way with the greatest sum. @param clear of each column, its rows in turn */
function clearestWay(clear: Float32Array, columns: number, rows: number): number[] {
  const total = clear.slice();
  const from = new Int32Array(clear.length);
  for (let column = 1; column < columns; column++) {
    for (let row = 0; row < rows; row++) {
      let most = -Infinity;
      for (let before = Math.max(0, row - 1); before <= Math.min(rows - 1, row + 1); before++) {
        const sum = (total[(column - 1) * rows + before] as number) - STEP * Math.abs(before - row);
        if (sum <= most) continue;
        most = sum;
        from[column * rows + row] = before;
      }
      total[column * rows + row] = (total[column * rows + row] as number) + most;
    }
  }
  const last = total.subarray((columns - 1) * rows);
  const way = [last.indexOf(Math.max(...last))];
  for (let column = columns - 1; column > 0; column--)
    way.unshift(from[column * rows + (way[0] as number)] as number);
  return way;
}
