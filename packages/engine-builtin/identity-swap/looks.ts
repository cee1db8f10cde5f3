import type { Picture } from '@semblance/engine-api/picture';
import type { Person } from '@semblance/vision/person';
import { add, mix, sub, times, type Vec } from './geometry.ts';
import { type Skeleton, skeletonOf } from './skeleton.ts';

/** Largest change per frame, in levels, that is learned: people turn slower than others step in front of them. */
const STEP = 6;
/** Difference in levels from which somebody else is seen. */
const OTHER = 50;
/** Samples on each side of a patch. */
const GRID = 7;

/** Mean colours of a person's trunk and head; undefined where a patch lies outside the picture. */
export interface Looks {
  readonly trunk: readonly number[] | undefined;
  readonly head: readonly number[] | undefined;
}

export function looksOf(picture: Picture, person: Person): Looks {
  const of = skeletonOf(person.points);
  const side = times(of.shoulderSide, 0.6);
  const [top, low] = [mix(of.shoulders, of.hips, 0.15), mix(of.shoulders, of.hips, 0.6)];
  return { trunk: meanIn(picture, top, sub(low, top), side), head: headIn(picture, of) };
}

function headIn(picture: Picture, { head, headDown, shoulders }: Skeleton): number[] | undefined {
  const radius = 0.4 * Math.hypot(head.x - shoulders.x, head.y - shoulders.y);
  const down = times(headDown, 2 * radius);
  return meanIn(picture, sub(head, times(down, 0.5)), down, {
    x: headDown.y * radius,
    y: -headDown.x * radius,
  });
}

/** Returns the mean colour of the parallelogram that reaches from `from` along `down`, to `side` on both sides. */
function meanIn(
  { width, height, channels, data }: Picture,
  from: Vec,
  down: Vec,
  side: Vec,
): number[] | undefined {
  const sum = [0, 0, 0];
  let count = 0;
  for (let row = 0; row < GRID; row++) {
    for (let column = 0; column < GRID; column++) {
      const across = times(side, (2 * column) / (GRID - 1) - 1);
      const at = add(add(from, times(down, row / (GRID - 1))), across);
      const [x, y] = [Math.floor(at.x), Math.floor(at.y)];
      if (x < 0 || y < 0 || x >= width || y >= height) continue;
      for (let c = 0; c < 3; c++) {
        sum[c] = (sum[c] as number) + (data[(y * width + x) * channels + (channels < 3 ? 0 : c)] as number);
      }
      count++;
    }
  }
  return count < GRID ? undefined : sum.map((value) => value / count);
}

/** Returns whether somebody else is seen: trunk or head have suddenly another colour. */
export function isOther(known: Looks, now: Looks): boolean {
  return far(known.trunk, now.trunk) > OTHER || far(known.head, now.head) > OTHER;
}

/** Returns the looks after a frame, which they follow slowly. */
export function learned(known: Looks, now: Looks): Looks {
  return { trunk: towards(known.trunk, now.trunk), head: towards(known.head, now.head) };
}

function far(a: readonly number[] | undefined, b: readonly number[] | undefined): number {
  return a && b ? Math.hypot(...a.map((value, c) => value - (b[c] as number))) : 0;
}

function towards(
  from: readonly number[] | undefined,
  to: readonly number[] | undefined,
): readonly number[] | undefined {
  if (!from || !to) return from ?? to;
  const share = Math.min(1, STEP / Math.max(1e-6, far(from, to)));
  return from.map((value, c) => value + share * ((to[c] as number) - value));
}
