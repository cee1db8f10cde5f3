import type { RgbImage } from '@semblance/vision/picture';
import { blur, distanceInside, grow, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { KIND } from './kinds.ts';
import { type Nearby, spreadInto } from './nearby.ts';

/** Distance over which the border is continued at a time, in pixels: little, so that stripes begin as stripes. */
const LOCAL = { spread: 3, every: 1 } as const;
/** Depths between which the continuation gets soft, and how soft, in pixels, so that no half star becomes a streak. */
const DEPTHS = [1, 8] as const;
const SOFTNESS = 5;
/**
 * Distances from what is unseen, in pixels: up to the first pair a fringe of the person weighs little, and beyond the
 * second something else may stand, as a flag with a gap between it and the head.
 */
const FRINGE = [0.5, 2.5] as const;
const BORDER = [3, 9] as const;
/** Weights of the fringe and of what is beyond the border: where nothing else is, they are better than nothing. */
const LEAST = { fringe: 0.03, beyond: 0.02 } as const;

/**
 * How far a copy's colour may be from the mean of what is seen at the border, in its deviations and in levels, and
 * how many times as far it counts for nothing.
 */
const DEVIATIONS = 2;
const LEVELS = 10;
const STRANGE = 1.6;
/** Half the side of the square in which copies from one place make a piece, in pixels, and the shares of it. */
const PIECE = 2;
const SHATTERED = [0.3, 0.6] as const;
/** By how much what is not trusted is wider than what is strange, and how softly it ends, in pixels. */
const MARGIN = 4;
const SOFT = 1.5;

/** Returns what continues the border of the hidden part, without structure of its own. */
export function calmOf(image: RgbImage, kinds: Uint8Array): Nearby {
  const { width, height } = image;
  const seen = plane(width, height);
  const unseen = plane(width, height);
  for (let i = 0; i < kinds.length; i++) {
    const kind = kinds[i] as number;
    seen.data[i] = kind === KIND.source || kind === KIND.context ? 1 : 0;
    unseen.data[i] = 1 - (seen.data[i] as number);
  }
  const away = distanceInside(seen).data;
  const weights = Float32Array.from(away, (distance) => {
    if (distance === 0) return 0;
    const fringe = LEAST.fringe + (1 - LEAST.fringe) * smoothstep(FRINGE[0], FRINGE[1], distance);
    return fringe * (1 - (1 - LEAST.beyond) * smoothstep(BORDER[0], BORDER[1], distance));
  });
  const depth = distanceInside(unseen, false).data;
  const targets = [...kinds.keys()].filter((i) => kinds[i] === KIND.hidden);
  // A key has the depth in its upper part and the place in the lower one: plain numbers sort fastest.
  const keys = Float64Array.from(targets, (i) => Math.round(3 * (depth[i] as number)) * kinds.length + i);
  const outermostFirst = Int32Array.from(keys.sort(), (key) => key % kinds.length);
  const found = spreadInto(image, weights, outermostFirst, LOCAL);
  const hidden = plane(width, height);
  for (const target of targets) hidden.data[target] = 1;
  const share = blur(hidden, SOFTNESS).data;
  for (const field of [found.means, found.squares]) {
    for (const c of [0, 1, 2]) {
      const values = plane(width, height);
      for (const target of targets) values.data[target] = field[target * 3 + c] as number;
      const soft = blur(values, SOFTNESS).data;
      for (const target of targets) {
        const from = field[target * 3 + c] as number;
        const to = (soft[target] as number) / (share[target] as number);
        field[target * 3 + c] =
          from + smoothstep(DEPTHS[0], DEPTHS[1], depth[target] as number) * (to - from);
      }
    }
  }
  return found;
}

/**
 * Returns how far the copies of a completion are trusted, 0–1: as far as they look like what borders them and are
 * whole pieces. Beside a head that moves everything catches the eye, so what is made up there must only continue
 * what is seen.
 * @param sources as of the completion
 * @param tone what is added to the copies
 */
export function trustIn(
  { width, height, data }: RgbImage,
  { sources, tone }: { readonly sources: Int32Array; readonly tone: RgbImage },
  { means, squares }: Nearby,
): Plane {
  const doubt = plane(width, height);
  for (let i = 0; i < sources.length; i++) {
    const source = sources[i] as number;
    if (source < 0) continue;
    let worst = 0;
    for (let c = 0; c < 3; c++) {
      const mean = means[i * 3 + c] as number;
      const deviation = Math.sqrt(Math.max(0, (squares[i * 3 + c] as number) - mean * mean));
      const by = (data[source * 3 + c] as number) + (tone.data[i * 3 + c] as number) - mean;
      worst = Math.max(worst, Math.abs(by) / (DEVIATIONS * deviation + LEVELS));
    }
    const strange = smoothstep(1, STRANGE, worst);
    const shattered = 1 - smoothstep(SHATTERED[0], SHATTERED[1], wholeness(sources, i, { width, height }));
    doubt.data[i] = Math.max(strange, shattered);
  }
  const wide = blur(grow(doubt, MARGIN), SOFT);
  for (let i = 0; i < wide.data.length; i++) wide.data[i] = 1 - (wide.data[i] as number);
  return wide;
}

/** Returns the share of the copies around one that come from the same place. */
function wholeness(
  sources: Int32Array,
  i: number,
  { width, height }: { readonly width: number; readonly height: number },
): number {
  const by = (sources[i] as number) - i;
  const x = i % width;
  const y = (i - x) / width;
  const last = Math.min(width - 1, x + PIECE);
  const lowest = Math.min(height - 1, y + PIECE);
  let [same, all] = [0, 0];
  for (let row = Math.max(0, y - PIECE); row <= lowest; row++) {
    for (let at = row * width + Math.max(0, x - PIECE); at <= row * width + last; at++) {
      const source = sources[at] as number;
      if (source < 0) continue;
      all++;
      if (source - at === by) same++;
    }
  }
  return same / all;
}
