import type { Picture } from '@semblance/engine-api/picture';
import { pointOf } from '@semblance/vision/face-mesh';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import { eyeDistance } from './identity-measures.ts';
import { greatest, type Moved, type Shift } from './moved-picture.ts';

/** Distance below the chin from which clothes are looked at, in eye distances. */
const CLOTHES = 0.45;
/** Distance within which a point of the still explains one of the frame, in eye distances. */
const NEAR = 0.2;
/** Levels by which a pixel is lighter or darker than all around it that the still has nowhere near. */
const SPECK = 5;

/**
 * Returns the number of points on the clothes that are lighter or darker than all around them, which the still does
 * not have nearby: where a moved part meets one that stays, a row of them shows.
 */
export function specks({ still, frame, people, faces }: Moved): number {
  const { width, height } = still;
  const iod = eyeDistance(faces.still);
  const own = greatest(points(still), Math.max(2, Math.round(NEAR * iod)));
  const now = points(frame);
  const top = Math.round(pointOf(faces.still.points, 152).y + CLOTHES * iod);
  let count = 0;
  for (let i = Math.max(0, top) * width; i < width * height; i++) {
    if ((people.still.data[i] as number) < 0.5 || (people.frame.data[i] as number) < 0.5) continue;
    if ((now.data[i] as number) - (own.data[i] as number) > SPECK) count++;
  }
  return count;
}

/** Returns by how much each pixel is lighter or darker than all around it. */
function points({ width, height, data }: Picture): Plane {
  const out = plane(width, height);
  const light = (i: number): number =>
    0.299 * (data[i * 3] as number) +
    0.587 * (data[i * 3 + 1] as number) +
    0.114 * (data[i * 3 + 2] as number);
  const lights = Float32Array.from({ length: width * height }, (_, i) => light(i));
  const around = [-width - 1, -width, -width + 1, -1, 1, width - 1, width, width + 1];
  for (let y = 1; y < height - 1; y++)
    for (let x = 1; x < width - 1; x++) {
      const i = y * width + x;
      let [low, high] = [Infinity, -Infinity];
      for (const step of around) {
        const other = lights[i + step] as number;
        low = Math.min(low, other);
        high = Math.max(high, other);
      }
      const here = lights[i] as number;
      out.data[i] = Math.max(0, here - high, low - here);
    }
  return out;
}

/** Side of the blocks of clothes that are followed, interval between them, and farthest move, in eye distances. */
const BLOCK = { side: 0.3, apart: 0.12, most: 0.24 } as const;
/** Least standard deviation of a block's levels with which its place is known. */
const TEXTURE = 9;
/** Mean difference of levels up to which a block is found again. */
const FOUND = 9;

/**
 * Returns by how much neighbouring blocks of the clothes move apart, in eye distances: the second largest jump. Each
 * block is looked for in the frame; a smooth lean of the shoulders moves neighbours alike.
 */
export function shoulderJump({ still, frame, people, faces }: Moved): number {
  const { width, height } = still;
  const iod = eyeDistance(faces.still);
  const side = Math.max(8, Math.round(BLOCK.side * iod));
  const apart = Math.max(3, Math.round(BLOCK.apart * iod));
  const top = Math.round(pointOf(faces.still.points, 152).y + 0.45 * iod);
  const rows: (Shift | undefined)[][] = [];
  for (let y = top; y + side < height; y += apart) {
    const row: (Shift | undefined)[] = [];
    for (let x = 0; x + side < width; x += apart) {
      const middle = (y + (side >> 1)) * width + x + (side >> 1);
      const onPerson = (people.still.data[middle] as number) > 0.5;
      row.push(
        onPerson ? moveOf(still, frame, { x, y, side, most: Math.round(BLOCK.most * iod) }) : undefined,
      );
    }
    rows.push(row);
  }
  const jumps: number[] = [];
  for (const [r, row] of rows.entries())
    for (const [c, move] of row.entries())
      for (const other of [next((k) => row[c + k]), next((k) => rows[r + k]?.[c])])
        if (move && other) jumps.push(Math.hypot(move.dx - other.dx, move.dy - other.dy) / iod);
  jumps.sort((a, b) => b - a);
  return jumps[1] ?? 0;
}

/** Returns the nearest block that was found; those on a tear are not. */
function next(at: (steps: number) => Shift | undefined): Shift | undefined {
  return at(1) ?? at(2) ?? at(3);
}

/** Difference from a block's second best place by which its best one is told, in levels. */
const SURE = 5;

/** Returns where a block of the still is in the frame; undefined where its place cannot be told. */
function moveOf(
  still: Picture,
  frame: Picture,
  {
    x,
    y,
    side,
    most,
  }: { readonly x: number; readonly y: number; readonly side: number; readonly most: number },
): Shift | undefined {
  const { width, height } = still;
  if (!isTextured(still, x, y, side)) return undefined;
  const tried: (Shift & { readonly by: number })[] = [];
  for (let dy = -most; dy <= most; dy++)
    for (let dx = -most; dx <= most; dx++) {
      if (x + dx < 0 || x + dx + side >= width || y + dy < 0 || y + dy + side >= height) continue;
      let sum = 0;
      for (let v = 0; v < side; v += 2)
        for (let u = 0; u < side; u += 2) {
          const i = ((y + v) * width + x + u) * 3 + 1;
          sum += Math.abs((frame.data[i + (dy * width + dx) * 3] as number) - (still.data[i] as number));
        }
      tried.push({ dx, dy, by: sum / Math.ceil(side / 2) ** 2 });
    }
  const best = tried.reduce((least, one) => (one.by < least.by ? one : least));
  // Stripes and checks look alike in several places.
  const beside = tried.filter(({ dx, dy }) => Math.hypot(dx - best.dx, dy - best.dy) > side / 4);
  const second = Math.min(...beside.map(({ by }) => by));
  return best.by < FOUND && second > best.by + SURE ? best : undefined;
}

/** Whether a block differs from itself moved in any direction, so that its place can be told. */
function isTextured({ width, data }: Picture, x: number, y: number, side: number): boolean {
  let [xx, xy, yy] = [0, 0, 0];
  for (let v = 1; v < side - 1; v++)
    for (let u = 1; u < side - 1; u++) {
      const i = ((y + v) * width + x + u) * 3 + 1;
      const gx = ((data[i + 3] as number) - (data[i - 3] as number)) / 2;
      const gy = ((data[i + width * 3] as number) - (data[i - width * 3] as number)) / 2;
      [xx, xy, yy] = [xx + gx * gx, xy + gx * gy, yy + gy * gy];
    }
  const count = (side - 2) ** 2;
  const least = (xx + yy - Math.hypot(xx - yy, 2 * xy)) / 2;
  return Math.sqrt(least / count) > TEXTURE / 2;
}
