import type { Picture } from '@semblance/engine-api/picture';
import type { Covered } from './covered.ts';
import { LEFT_LIDS, type Lids, RIGHT_LIDS } from './expression.ts';

/** Columns of the middle of an eye. */
const MIDDLE = [1, 2, 3, 4] as const;
/** Points at which lids meet. */
const CORNERS = [33, 133, 130, 243, 263, 362, 359, 463];
/** Share of the points above the eye that a frame must seem to cover for the lids to be held by it. */
const HELD = 0.2;
/**
 * Share of the way from the eye's darkest place to the skin below it that the two darkest columns of lids with skin reach.
 * Of 12 portraits whose frames hold their lids, two had 0.25 and 0.31, the others 0.45 and more.
 */
const SKIN = 0.38;
/** Places between a rim and the row above it at which skin is looked for. */
const PLACES = Array.from({ length: 15 }, (_, k) => 0.1 + 0.05 * k);
/** Least difference of eye and skin, in levels. */
const CONTRAST = 20;

/**
 * Returns what is in front of a face with lids that close as a whole or not at all: held in part they would be torn.
 * Behind glasses they close, because the network sees frames wider than they are, and both do the same. Lids that show
 * no skin, as those that hang down to the iris under a frame, stay still: they have nothing that could close.
 */
export function withWholeLids(covered: Covered, points: Float32Array, picture: Picture): Covered {
  const both = [RIGHT_LIDS, LEFT_LIDS] as const;
  const held = both.map(({ upper }, side) => {
    const share = upper.reduce((sum, v) => sum + (covered.points[v] as number), 0) / upper.length;
    return share > HELD || (covered.eyes[side] as boolean);
  }) as [boolean, boolean];
  if (!covered.framed) return { ...covered, eyes: held };
  if (!held.includes(true)) return covered;
  const close = !covered.eyes.includes(true) && both.every((lids) => showSkin(lids, points, picture));
  if (!close) return { ...covered, eyes: [true, true] };
  const free = covered.points.slice();
  for (const v of [...both.flatMap((lids) => Object.values(lids).flat()), ...CORNERS]) free[v] = 0;
  return { ...covered, points: free };
}

/** Whether there is skin above the rim of an eye, which is lighter than the eye. */
function showSkin({ upper, above, lower, below }: Lids, points: Float32Array, picture: Picture): boolean {
  const shares = MIDDLE.map((k) => {
    const along = (from: readonly number[], to: readonly number[], t: number): number => {
      const at = (axis: 0 | 1): number => {
        const start = points[(from[k] as number) * 3 + axis] as number;
        return start + t * ((points[(to[k] as number) * 3 + axis] as number) - start);
      };
      return lumaAt(picture, at(0), at(1));
    };
    const dark = Math.min(...[0, 0.2, 0.4, 0.6, 0.8].map((t) => along(upper, lower, t)));
    const light = Math.max(...PLACES.map((t) => along(upper, above, t)));
    return (light - dark) / Math.max(CONTRAST, along(below, below, 0) - dark);
  }).sort((a, b) => a - b);
  return ((shares[0] as number) + (shares[1] as number)) / 2 > SKIN;
}

/** Returns the luma of a picture at a place: the mean of a pixel and those beside it. */
function lumaAt({ width, height, channels, data }: Picture, x: number, y: number): number {
  let sum = 0;
  for (const [dx, dy] of [
    [0, 0],
    [-0.7, 0],
    [0.7, 0],
    [0, -0.7],
    [0, 0.7],
  ] as const) {
    const column = Math.min(width - 1, Math.max(0, Math.floor(x + dx)));
    const row = Math.min(height - 1, Math.max(0, Math.floor(y + dy)));
    const i = (row * width + column) * channels;
    sum += 0.299 * (data[i] as number) + 0.587 * (data[i + 1] as number) + 0.114 * (data[i + 2] as number);
  }
  return sum / 5;
}
