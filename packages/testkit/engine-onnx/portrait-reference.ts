import type { RgbImage } from '@semblance/vision/picture';
import {
  CELLS,
  COLOUR_WEIGHTS,
  MOTION_LENGTH,
  MOTION_OFFSET,
  MOTION_WEIGHTS,
  STITCH_WEIGHTS,
} from './tiny-live-portrait.ts';

/**
 * Second implementation of the tiny LivePortrait's motion, after its authors' description and without code of the
 * engine: row vectors and transposed rotations as in the paper, one elementary rotation after the other, sums in
 * doubles.
 */

export type Row = readonly number[];

export interface ReferenceMotion {
  readonly angles: Row;
  readonly scale: number;
  readonly translation: Row;
  readonly expression: readonly Row[];
  readonly points: readonly Row[];
}

/** Returns the output of the tiny motion extractor for a square picture. */
export function referenceMotion({ width, data }: RgbImage): ReferenceMotion {
  const step = width / CELLS;
  const seen = new Array<number>(3 * CELLS * CELLS).fill(-0.5);
  for (let i = 0; i < data.length; i++) {
    const pixel = Math.floor(i / 3);
    const row = Math.floor(Math.floor(pixel / width) / step);
    const cell = ((i % 3) * CELLS + row) * CELLS + Math.floor((pixel % width) / step);
    seen[cell] = (seen[cell] as number) + (data[i] as number) / 255 / step / step;
  }
  const out = Array.from(MOTION_OFFSET, (offset, k) =>
    seen.reduce((sum, value, i) => sum + value * (MOTION_WEIGHTS[i * MOTION_LENGTH + k] as number), offset),
  );
  return {
    angles: out.slice(0, 3),
    scale: out[3] as number,
    translation: out.slice(4, 7),
    expression: triples(out.slice(7, 70)),
    points: triples(out.slice(70)),
  };
}

function triples(values: ArrayLike<number>): Row[] {
  return Array.from({ length: values.length / 3 }, (_, i) =>
    [0, 1, 2].map((k) => values[i * 3 + k] as number),
  );
}

function product(a: readonly Row[], b: readonly Row[]): Row[] {
  return a.map((row) =>
    (b[0] as Row).map((_, j) => row.reduce((sum, value, k) => sum + value * (b[k]?.[j] as number), 0)),
  );
}

function flip(m: readonly Row[]): Row[] {
  return [0, 1, 2].map((j) => m.map((row) => row[j] as number));
}

/** Returns (Rz Ry Rx)ᵀ, to be multiplied from the right. */
function turn(angles: Row): Row[] {
  const [x, y, z] = angles.map((angle) => (angle / 180) * Math.PI) as [number, number, number];
  const rx = [
    [1, 0, 0],
    [0, Math.cos(x), -Math.sin(x)],
    [0, Math.sin(x), Math.cos(x)],
  ];
  const ry = [
    [Math.cos(y), 0, Math.sin(y)],
    [0, 1, 0],
    [-Math.sin(y), 0, Math.cos(y)],
  ];
  const rz = [
    [Math.cos(z), -Math.sin(z), 0],
    [Math.sin(z), Math.cos(z), 0],
    [0, 0, 1],
  ];
  return flip(product(product(rz, ry), rx));
}

/** Returns x = scale · (x_c R + δ) + t, without the shift in depth. */
function transform(
  points: readonly Row[],
  rotation: readonly Row[],
  { scale, expression, translation }: Pick<ReferenceMotion, 'scale' | 'expression' | 'translation'>,
): number[] {
  return product(points, rotation).flatMap((row, i) =>
    row.map(
      (value, k) =>
        scale * (value + (expression[i]?.[k] as number)) + (k === 2 ? 0 : (translation[k] as number)),
    ),
  );
}

/** Returns x_s. */
export function referenceRest(still: ReferenceMotion): number[] {
  return transform(still.points, turn(still.angles), still);
}

/** Returns x_d with R = (R_d R_d,0ᵀ) R_s, and differences to the first frame in all other terms. */
export function referenceRelative(
  still: ReferenceMotion,
  driver: ReferenceMotion,
  first: ReferenceMotion,
): number[] {
  const rotation = product(product(turn(driver.angles), flip(turn(first.angles))), turn(still.angles));
  const plus = (own: Row, now: Row, then: Row): Row =>
    own.map((value, k) => value + ((now[k] as number) - (then[k] as number)));
  return transform(still.points, rotation, {
    scale: still.scale * (driver.scale / first.scale),
    translation: plus(still.translation, driver.translation, first.translation),
    expression: still.expression.map((own, i) =>
      plus(own, driver.expression[i] as Row, first.expression[i] as Row),
    ),
  });
}

/** Returns x_d of the driver, with the still's own face shape. */
export function referenceAbsolute(still: ReferenceMotion, driver: ReferenceMotion): number[] {
  const kept = (point: number, axis: number): boolean => {
    if ([0, 7, 10].includes(point)) return true;
    if (point === 3 || point === 4) return axis !== 1;
    if (point === 5 || point === 8) return axis !== 2;
    return point === 9 && axis === 0;
  };
  return transform(still.points, turn(driver.angles), {
    scale: still.scale,
    translation: driver.translation,
    expression: still.expression.map((own, i) =>
      own.map((value, k) => (kept(i, k) ? value : (driver.expression[i]?.[k] as number))),
    ),
  });
}

/** Returns the output of the tiny stitcher for x_s and x_d: x_d plus 63 numbers and a shift of all points. */
export function referenceStitch(rest: Row, wanted: Row): number[] {
  const both = [...rest, ...wanted];
  const delta = Array.from({ length: 65 }, (_, k) =>
    both.reduce((sum, value, i) => sum + value * (STITCH_WEIGHTS[i * 65 + k] as number), 0),
  );
  return wanted.map(
    (value, i) => value + (delta[i] as number) + (i % 3 === 2 ? 0 : (delta[63 + (i % 3)] as number)),
  );
}

/** Returns the colours (0–1) of the tiny generator's 4 × 4 fields: all red, then all green, then all blue values. */
export function referenceColours(rest: Row, wanted: Row): number[] {
  const both = [...wanted, ...rest];
  const fields = 3 * CELLS * CELLS;
  return Array.from({ length: fields }, (_, k) => {
    const logit = both.reduce((sum, value, i) => sum + value * (COLOUR_WEIGHTS[i * fields + k] as number), 0);
    return 1 / (1 + Math.exp(-logit));
  });
}
