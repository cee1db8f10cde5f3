import type { Picture } from '@semblance/engine-api/picture';
import { type Face, pointOf } from '@semblance/vision/face-mesh';
import { FACE_SIDES } from '@semblance/vision/face-regions';
import { distanceInside, grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { eyeDistance } from './identity-measures.ts';

/** A still and one frame of its animation, of the same size. */
export interface Moved {
  readonly still: Picture;
  readonly frame: Picture;
  /** The person in either, 1 inside. */
  readonly people: { readonly still: Plane; readonly frame: Plane };
  readonly faces: { readonly still: Face; readonly frame: Face };
}

/** Distance from the person, in eye distances, from which nothing moves with it, and that of its soft outline. */
const FAR = 0.6;
const OUTLINE = 0.12;
/** Side of the squares in which a change is measured, in eye distances: far from the person, and beside it. */
const SQUARE = { far: 0.25, beside: 0.12 } as const;
/** Shifts of the whole picture that are tried, in pixels. */
const SHIFT = 3;

/**
 * Returns the largest mean change of a square of the background that both pictures show, in levels: far from the
 * person, and beside it. The frame is compared with the still as a whole, shifted as it fits best, so that a moved
 * camera is none.
 */
export function backgroundChange({ still, frame, people, faces }: Moved): { far: number; beside: number } {
  const iod = eyeDistance(faces.still);
  const heads = [
    headOf(people.still, faces.still, COVERED.maybe),
    headOf(people.frame, faces.frame, COVERED.maybe),
  ];
  const shown = plane(still.width, still.height, 1);
  for (let i = 0; i < shown.data.length; i++) if (heads.some(({ data }) => data[i])) shown.data[i] = 0;
  const away = distanceInside(shown, false);
  const beyond = (from: number, to = Infinity): Plane => ({
    ...shown,
    data: away.data.map((value) => (value > from * iod && value <= to * iod ? 1 : 0)),
  });
  const shift = bestShift(still, frame, beyond(FAR));
  const side = (share: number): number => Math.max(6, Math.round(share * iod));
  return {
    far: changeWithin(beyond(FAR), { still, frame, shift, side: side(SQUARE.far) }),
    beside: changeWithin(above(beyond(OUTLINE, FAR), faces, -0.2), {
      still,
      frame,
      shift,
      side: side(SQUARE.beside),
    }),
  };
}

interface Shift {
  readonly dx: number;
  readonly dy: number;
}

/** Returns the largest mean change of a square that mostly lies within a mask. */
function changeWithin(
  mask: Plane,
  {
    still,
    frame,
    shift: { dx, dy },
    side,
  }: { readonly still: Picture; readonly frame: Picture; readonly shift: Shift; readonly side: number },
): number {
  const { width, height } = still;
  let most = 0;
  for (let top = SHIFT; top + side + SHIFT <= height; top += side >> 1)
    for (let left = SHIFT; left + side + SHIFT <= width; left += side >> 1) {
      let [sum, count] = [0, 0];
      for (let y = top; y < top + side; y++)
        for (let x = left; x < left + side; x++) {
          if (!mask.data[y * width + x]) continue;
          const [i, j] = [(y * width + x) * 3, ((y + dy) * width + x + dx) * 3];
          for (let c = 0; c < 3; c++)
            sum += Math.abs((frame.data[j + c] as number) - (still.data[i + c] as number)) / 3;
          count++;
        }
      if (count > 0.6 * side * side) most = Math.max(most, sum / count);
    }
  return most;
}

/** Share of a pixel that a person covers from which it may be, and from which it surely is the person's. */
const COVERED = { maybe: 0.25, surely: 0.5 } as const;
/** Radius of the circles that hold the ears, in eye distances: masks of people often lack them. */
const EAR = 0.55;

/** Returns 1 where a person is, with the ears. */
function headOf(person: Plane, { points }: Face, least: number): Plane {
  const { width, height } = person;
  const reach = EAR * eyeDistance({ points });
  const ears = FACE_SIDES.map((i) => pointOf(points, i));
  const out = plane(width, height);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      const onEar = ears.some((ear) => Math.hypot(x - ear.x, y - ear.y) < reach);
      if (onEar || (person.data[i] as number) > least) out.data[i] = 1;
    }
  return out;
}

/** Returns the part of a mask above both chins, or a distance below them in eye distances. */
function above(mask: Plane, { still, frame }: Moved['faces'], below: number): Plane {
  const chin = Math.min(pointOf(still.points, 152).y, pointOf(frame.points, 152).y);
  const end = Math.max(0, Math.round(chin + below * eyeDistance(still))) * mask.width;
  return { ...mask, data: mask.data.map((value, i) => (i < end ? value : 0)) };
}

/** Returns the shift of a frame against its still that explains most of it within a mask. */
function bestShift(still: Picture, frame: Picture, mask: Plane): Shift {
  const { width, height } = still;
  let best = { dx: 0, dy: 0, sum: Infinity };
  for (let dy = -SHIFT; dy <= SHIFT; dy++)
    for (let dx = -SHIFT; dx <= SHIFT; dx++) {
      let sum = 0;
      for (let y = SHIFT; y < height - SHIFT; y += 2)
        for (let x = SHIFT; x < width - SHIFT; x += 2) {
          const i = y * width + x;
          if (!mask.data[i]) continue;
          sum += Math.abs(
            (frame.data[(i + dy * width + dx) * 3 + 1] as number) - (still.data[i * 3 + 1] as number),
          );
        }
      // Noise must not move a picture.
      if (sum < 0.97 * best.sum || (dx === 0 && dy === 0 && sum <= best.sum)) best = { dx, dy, sum };
    }
  return best;
}

/** The band around the person in which stray edges are looked for, in eye distances from its outline. */
const BAND = { from: 0.1, to: 0.9 } as const;
/** Distance over which an edge of the still's background, and one of its clothes, explains one in the frame. */
const EXPLAINS = { background: 0.35, clothes: 0.2 } as const;
/** Distance from the middle of the neck at which clothes are beside it, in eye distances. */
const COLLAR = 0.7;
/** Step between pixels on both sides of a stray edge, in levels. */
const EDGE = 14;

/**
 * Returns the length of edges in the background beside the head that the still does not have nearby, in eye
 * distances. Edges of the head itself are none: it is left out of the still, and with a margin of the frame. Shoulders
 * may lean.
 */
export function strayEdges({ still, frame, people, faces }: Moved): number {
  const { width, height } = still;
  const iod = eyeDistance(faces.still);
  const own = steps(still);
  const clothes = plane(width, height);
  const person = grow(headOf(people.still, faces.still, COVERED.surely), BAND.from * iod);
  const chin = pointOf(faces.still.points, 152);
  for (let i = 0; i < own.data.length; i++) {
    if (!person.data[i]) continue;
    const shoulder = i / width > chin.y && Math.abs((i % width) - chin.x) > COLLAR * iod;
    if (shoulder) clothes.data[i] = own.data[i] as number;
    own.data[i] = 0;
  }
  const behind = greatest(own, Math.round(EXPLAINS.background * iod));
  const worn = greatest(clothes, Math.round(EXPLAINS.clothes * iod));
  const head = headOf(people.frame, faces.frame, COVERED.maybe);
  const within = grow(head, BAND.from * iod);
  const band = above(grow(head, BAND.to * iod), faces, 0.3);
  const now = steps(frame);
  let count = 0;
  for (let i = 0; i < width * height; i++) {
    if (within.data[i] || !band.data[i]) continue;
    const explained = Math.max(behind.data[i] as number, worn.data[i] as number);
    if ((now.data[i] as number) - explained > EDGE) {
      count++;
    }
  }
  // Each edge is seen from both of its sides.
  return count / 2 / iod;
}

/** Returns the largest step of a channel between the neighbours of each pixel, smoothed over three across the step. */
function steps({ width, height, data }: Picture): Plane {
  const out = plane(width, height);
  const at = (x: number, y: number, c: number): number => data[(y * width + x) * 3 + c] as number;
  for (let y = 1; y < height - 1; y++)
    for (let x = 1; x < width - 1; x++) {
      let most = 0;
      for (let c = 0; c < 3; c++) {
        let [across, down] = [0, 0];
        for (const k of [-1, 0, 1]) {
          across += at(x + 1, y + k, c) - at(x - 1, y + k, c);
          down += at(x + k, y + 1, c) - at(x + k, y - 1, c);
        }
        most = Math.max(most, Math.hypot(across, down) / 3);
      }
      out.data[y * width + x] = most;
    }
  return out;
}

/** Returns the largest value within a square around each pixel. */
export function greatest(source: Plane, radius: number): Plane {
  const { width, height } = source;
  const pass = (from: Plane, step: number, length: number): Plane => {
    const out = plane(width, height);
    for (let i = 0; i < out.data.length; i++) {
      const place = step === 1 ? i % width : Math.floor(i / width);
      const [low, high] = [Math.max(0, place - radius), Math.min(length - 1, place + radius)];
      let most = 0;
      for (let p = low; p <= high; p++) most = Math.max(most, from.data[i + (p - place) * step] as number);
      out.data[i] = most;
    }
    return out;
  };
  return pass(pass(source, 1, width), width, height);
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
