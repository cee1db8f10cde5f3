import { grainAround } from './grain.ts';
import type { HeadShape } from './head-shape.ts';
import { LIP_ROWS } from './lips.ts';
import type { Planes } from './openings.ts';
import { type BytePlane, sampleByte } from './raster.ts';

export type Yuv = readonly [number, number, number];

/** What the inside of a mouth takes from its still, so that it lies in the still's own range. */
export interface MouthColours {
  readonly skin: Yuv;
  readonly lips: Yuv;
  /** Luma of the whites of the eyes: teeth are as light. */
  readonly whites: number;
  /** Luma of the darkest of the face, as pupils and nostrils are: a mouth is no darker. */
  readonly black: number;
  /** In levels. */
  readonly grain: number;
  /** Deviation of the blur of the still's edges, in pixels. */
  readonly blur: number;
}

const CHEEKS = [50, 280, 101, 330, 205, 425];
/** Columns through the eyes beside their middle: upper and lower rim. */
const EYE_COLUMNS = [
  [161, 163],
  [160, 144],
  [158, 153],
  [157, 154],
  [388, 390],
  [387, 373],
  [385, 380],
  [384, 381],
] as const;
/** Share of the places in the eyes that are lighter than what counts as their white: highlights are. */
const WHITES = 0.2;
/** Shares of the face's points, and of the pixels of its eyes, that are darker than what counts as its darkest. */
const DARKEST = { ofFace: 0.01, ofEyes: 0.06 };
/** What a step has of its height in its steepest pixel, for each inverse pixel of the blur's deviation. */
const STEEPEST = 0.4;
const BLUR = [0.5, 3] as const;

export function mouthColours(still: Planes, { texture }: HeadShape, iod: number): MouthColours {
  const place = (v: number): readonly [number, number] => [
    texture[v * 2] as number,
    texture[v * 2 + 1] as number,
  ];
  const eyes = EYE_COLUMNS.flatMap(([upper, lower]) =>
    [0.35, 0.5, 0.65].map((t) => {
      const [a, b] = [place(upper), place(lower)];
      return sampleByte(still.y, a[0] * (1 - t) + b[0] * t, a[1] * (1 - t) + b[1] * t);
    }),
  ).sort((p, q) => q - p);
  const points = Array.from({ length: texture.length / 2 }, (_, v) => sampleByte(still.y, ...place(v)));
  const dark = points.slice(0, MESH).sort((p, q) => p - q);
  const around = EYE_COLUMNS.flat().map(place);
  const { values, steps } = pixelsAround(still.y, around, 0.05 * iod);
  const lips = LIP_ROWS.flatMap(({ upper, lower }) => [...upper, ...lower]);
  return {
    skin: meanOf(still, CHEEKS.map(place)),
    lips: meanOf(still, middleHalf(lips, (v) => points[v] as number).map(place)),
    whites: eyes[Math.floor(WHITES * eyes.length)] as number,
    black: Math.min(ranked(dark, DARKEST.ofFace), ranked(values, DARKEST.ofEyes)),
    grain: grainAround(still.y, CHEEKS.map(place), 0.06 * iod),
    blur: blurOf(values, steps),
  };
}

/** Number of the mesh's points, which all lie on the face. */
const MESH = 468;

/** Returns the half of some things that is nearest to their median. */
function middleHalf<T>(things: readonly T[], value: (thing: T) => number): T[] {
  const quarter = things.length >> 2;
  return [...things].sort((a, b) => value(a) - value(b)).slice(quarter, things.length - quarter);
}

function meanOf({ y, u, v }: Planes, places: readonly (readonly [number, number])[]): Yuv {
  const mean = (plane: BytePlane, per: number): number =>
    places.reduce((sum, [px, py]) => sum + sampleByte(plane, px / per, py / per), 0) / places.length;
  return [mean(y, 1), mean(u, 2), mean(v, 2)];
}

/** Returns the lumas around some places and the steps between them, each sorted. */
function pixelsAround(
  { width, height, data }: BytePlane,
  places: readonly (readonly [number, number])[],
  radius: number,
): { values: number[]; steps: number[] } {
  const [values, steps]: [number[], number[]] = [[], []];
  for (const [x, y] of places) {
    const [left, right] = [Math.max(1, Math.round(x - radius)), Math.min(width - 2, Math.round(x + radius))];
    for (let row = Math.max(1, Math.round(y - radius)); row <= Math.min(height - 2, y + radius); row++) {
      for (let i = row * width + left; i <= row * width + right; i++) {
        values.push(data[i] as number);
        const across = (data[i + 1] as number) - (data[i - 1] as number);
        const down = (data[i + width] as number) - (data[i - width] as number);
        steps.push(Math.hypot(across, down) / 2);
      }
    }
  }
  return { values: values.sort((a, b) => a - b), steps: steps.sort((a, b) => a - b) };
}

const ranked = (sorted: readonly number[], share: number): number =>
  sorted[Math.floor(share * (sorted.length - 1))] ?? 0;

/** Returns the deviation of the blur of edges, by the steepest of them. */
function blurOf(values: readonly number[], steps: readonly number[]): number {
  const range = ranked(values, 0.98) - ranked(values, 0.02);
  const [least, most] = BLUR;
  return Math.min(most, Math.max(least, (STEEPEST * range) / Math.max(1, ranked(steps, 0.99))));
}
