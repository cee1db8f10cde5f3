import type { LipEdge } from './lip-edge.ts';
import type { MouthColours, Yuv } from './mouth-colours.ts';
import type { Planes } from './openings.ts';
import { sampleByte } from './raster.ts';

/** Opening at rest, in IOD, from which a mouth shows its teeth, and whatever else is inside. */
const OPEN = { teeth: 0.035, inside: 0.08 };
/** Columns to each side over which the edge of the upper lip is even, though gums are not. */
const EVEN = 4;
/** How much longer or shorter than those around it a tooth is, in openings. */
const POINTED = 0.1;
/** Columns to each side that count as nearby, and what blur adds to a tooth's height, in IOD. */
const NEARBY = 3;
const BEYOND = 0.012;
/** Columns in which teeth are looked for, and steps down each. */
const COLUMNS = 41;
const STEPS = 52;
/** How far down teeth are looked for, in openings: the mesh's lower lip may run through them. */
const DOWN = 1.3;
/** Share of the columns that must show teeth, and their least height there, in IOD. */
const WITH_TEETH = 0.3;
const LEAST_HEIGHT = 0.018;
/** Share of the places between the lips, the whitest, that are taken for teeth, and by how much lips are less white. */
const LIGHTEST = 0.2;
const DISTINCT = 18;
/** How much more a difference of colour says than one of luma, and redness of a tooth. */
const COLOUR = 1.5;
const RED = 2;

/** The lips of a still at rest, in the plane of its mouth. */
export interface RestLips {
  readonly top: LipEdge;
  readonly bottom: LipEdge;
}

/** Where a still shows teeth: what is between their upper and lower edge, as heights in the plane of the mouth. */
export class OwnTeeth {
  readonly #lips: RestLips;
  /** Edges at each column, as shares of the opening from above. */
  readonly #upper: Float32Array;
  readonly #lower: Float32Array;
  readonly #lowest: Float32Array;

  constructor(lips: RestLips, upper: Float32Array, lower: Float32Array) {
    this.#lips = lips;
    this.#upper = meansOf(mediansOf(upper, EVEN), EVEN);
    this.#lower = toothEdge(lower);
    this.#lowest = this.#lower.map((_, k) => Math.max(...around(this.#lower, k, NEARBY)));
  }

  /** Height where the teeth begin below the upper lip, whose mesh may run through the lip itself. */
  topAt(x: number): number {
    return this.#at(this.#upper, x);
  }

  bottomAt(x: number): number {
    return this.#at(this.#lower, x);
  }

  /** Height that no tooth nearby reaches. */
  lowestAt(x: number): number {
    return this.#at(this.#lowest, x) + BEYOND;
  }

  #at(shares: Float32Array, x: number): number {
    const { top, bottom } = this.#lips;
    const place = ((x - top.left) / (top.right - top.left)) * COLUMNS - 0.5;
    const at = Math.min(COLUMNS - 1.001, Math.max(0, place));
    const k = Math.floor(at);
    const share = (shares[k] as number) + ((shares[k + 1] as number) - (shares[k] as number)) * (at - k);
    const from = top.at(x);
    return from + share * (bottom.at(x) - from);
  }
}

/**
 * Looks for what a still shows between its lips, and for the teeth in it.
 * @param toTexture map from the plane of the mouth to the still
 * @returns undefined where it shows nothing
 */
export function findInside(
  planes: Planes,
  lips: RestLips,
  toTexture: (x: number, y: number) => readonly [number, number],
  colours: Pick<MouthColours, 'skin' | 'lips' | 'black'>,
): OwnTeeth | undefined {
  const gap = lips.bottom.middle - lips.top.middle;
  if (gap < OPEN.teeth) return undefined;
  const teeth = findTeeth(planes, lips, toTexture, colours);
  if (teeth || gap < OPEN.inside) return teeth;
  // All of it stays with the upper jaw.
  const from = new Float32Array(COLUMNS);
  return new OwnTeeth(lips, from, from.slice().fill(1));
}

function findTeeth(
  planes: Planes,
  lips: RestLips,
  toTexture: (x: number, y: number) => readonly [number, number],
  colours: Pick<MouthColours, 'skin' | 'lips' | 'black'>,
): OwnTeeth | undefined {
  const { top, bottom } = lips;
  const columns = Array.from({ length: COLUMNS }, (_, c) => {
    const x = top.left + ((c + 0.5) / COLUMNS) * (top.right - top.left);
    const [from, gap] = [top.at(x), bottom.at(x) - top.at(x)];
    const seen = Array.from({ length: STEPS }, (_, k): Yuv => {
      const [px, py] = toTexture(x, from + DOWN * ((k + 0.5) / STEPS) * gap);
      return [
        sampleByte(planes.y, px, py),
        sampleByte(planes.u, px / 2, py / 2),
        sampleByte(planes.v, px / 2, py / 2),
      ];
    });
    return { gap, seen };
  });
  const all = columns.slice(COLUMNS / 8, -COLUMNS / 8).flatMap(({ seen }) => seen);
  const lightest = all.sort((a, b) => whiteness(b) - whiteness(a)).slice(0, LIGHTEST * all.length);
  const tooth = [0, 1, 2].map(
    (c) => lightest.reduce((sum, colour) => sum + (colour[c] as number), 0) / lightest.length,
  ) as unknown as Yuv;
  if (whiteness(tooth) < whiteness(colours.lips) + DISTINCT) return undefined;
  const dark: Yuv = [Math.max(colours.black, 16 + 0.12 * (colours.skin[0] - 16)), 128, 128];
  const isTooth = (colour: Yuv): boolean => {
    const far = apart(colour, tooth);
    return (
      whiteness(colour) > whiteness(tooth) || (far < apart(colour, colours.lips) && far < apart(colour, dark))
    );
  };
  const runs = columns.map(({ gap, seen }) => {
    const run = longestRun(seen.map(isTooth));
    return DOWN * ((run.to - run.from) / STEPS) * gap < LEAST_HEIGHT ? undefined : run;
  });
  if (runs.filter((run) => run).length < WITH_TEETH * COLUMNS) return undefined;
  const edge = (which: 'from' | 'to') =>
    Float32Array.from(runs, (_, c) => (DOWN * nearest(runs, c)[which]) / STEPS);
  return new OwnTeeth(lips, edge('from'), edge('to'));
}

/** How much a colour is that of a tooth: light, and less red than lips. */
function whiteness([y, , v]: Yuv): number {
  return y - RED * (v - 128);
}

function apart(a: Yuv, b: Yuv): number {
  return Math.abs(a[0] - b[0]) + COLOUR * Math.hypot(a[1] - b[1], a[2] - b[2]);
}

interface Run {
  readonly from: number;
  readonly to: number;
}

function longestRun(values: readonly boolean[]): Run {
  let longest: Run = { from: 0, to: 0 };
  let from = 0;
  for (let k = 0; k <= values.length; k++) {
    if (values[k]) continue;
    if (k - from > longest.to - longest.from) longest = { from, to: k };
    from = k + 1;
  }
  return longest;
}

/** Returns the run of the nearest column that has one. */
function nearest(runs: readonly (Run | undefined)[], column: number): Run {
  for (let by = 0; by < runs.length; by++) {
    const run = runs[column - by] ?? runs[column + by];
    if (run) return run;
  }
  throw new RangeError('no column shows teeth');
}

const around = (list: Float32Array, k: number, reach: number) =>
  list.slice(Math.max(0, k - reach), k + reach + 1);

function mediansOf(values: Float32Array, reach: number): Float32Array {
  return values.map((_, k) => {
    const near = around(values, k, reach).sort();
    return near[near.length >> 1] as number;
  });
}

function meansOf(values: Float32Array, reach: number): Float32Array {
  return values.map((_, k) => {
    const near = around(values, k, reach);
    return near.reduce((sum, value) => sum + value, 0) / near.length;
  });
}

/** Returns the edge of teeth without columns that end at teeth of the other jaw, or at a light spot. */
function toothEdge(values: Float32Array): Float32Array {
  const usual = mediansOf(values, EVEN);
  const within = mediansOf(values, 1).map((value, k) => {
    const middle = usual[k] as number;
    return Math.min(middle + POINTED, Math.max(middle - POINTED, value));
  });
  return meansOf(within, 1);
}
