import type { Picture } from '@semblance/engine-api/picture';
import type { Point } from '@semblance/vision/picture';
import {
  COLOUR_SHARE,
  COLOUR_WEIGHTS,
  EMAP,
  EMBEDDING_OFFSET,
  EMBEDDING_WEIGHTS,
  LENGTH,
} from './tiny-models.ts';

/**
 * Second implementation of a face swap by the tiny models, from the descriptions of the contracts and without code
 * of the engine: crops by 8 × 8 samples per pixel, the similarity from its normal equations, sums in doubles.
 */

const ARCFACE_112 = [
  [38.2946, 51.6963],
  [73.5318, 51.5014],
  [56.0252, 71.7366],
  [41.5493, 92.3655],
  [70.7299, 92.2041],
] as const;
/** Shares of a crop of `arcface_112_v1`. */
export const ARCFACE_112_V1 = [
  [0.35473214, 0.45658929],
  [0.64526786, 0.45658929],
  [0.5, 0.61154464],
  [0.37913393, 0.776875],
  [0.62086607, 0.776875],
] as const;
export const ARCFACE_112_V2 = ARCFACE_112.map(([x, y]) => [x / 112, y / 112] as const);
/** The same points as shares of a crop of 128 pixels that is 8 pixels wider at each side and 8 pixels higher. */
export const ARCFACE_128 = ARCFACE_112.map(([x, y]) => [(x + 8) / 128, y / 128] as const);

/** x' = a x − b y + c, y' = b x + a y + d */
export interface Similarity {
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly d: number;
}

/** Solves for the similarity with the least squared error between two sets of points (linear least squares). */
function solveSimilarity(from: readonly Point[], to: readonly Point[]): Similarity {
  // Rows (x, −y, 1, 0 | u) and (y, x, 0, 1 | v); the normal equations are solved by Gauss elimination.
  const rows = from.flatMap(({ x, y }, i) => {
    const { x: u, y: v } = to[i] as Point;
    return [
      [x, -y, 1, 0, u],
      [y, x, 0, 1, v],
    ];
  });
  const m = Array.from({ length: 4 }, (_, i) =>
    Array.from({ length: 5 }, (_, j) =>
      rows.reduce((sum, row) => sum + (row[i] as number) * (row[j] as number), 0),
    ),
  );
  for (let i = 0; i < 4; i++) {
    for (let k = 0; k < 4; k++) {
      if (k === i) continue;
      const factor = (m[k]?.[i] as number) / (m[i]?.[i] as number);
      for (let j = 0; j < 5; j++)
        (m[k] as number[])[j] = (m[k]?.[j] as number) - factor * (m[i]?.[j] as number);
    }
  }
  const [a = 0, b = 0, c = 0, d = 0] = m.map((row, i) => (row[4] as number) / (row[i] as number));
  return { a, b, c, d };
}

/** Returns the picture (0–1) at a position between pixels; the edge repeats. */
function at(picture: Picture, x: number, y: number, channel: number): number {
  const { width, height, channels, data } = picture;
  const px = Math.min(width - 1, Math.max(0, Math.floor(x)));
  const py = Math.min(height - 1, Math.max(0, Math.floor(y)));
  return (data[(py * width + px) * channels + channel] as number) / 255;
}

/** Returns a crop of size² pixels as planes of red, green and blue, 0–1. */
function cropPlanes(picture: Picture, { a, b, c, d }: Similarity, size: number): Float64Array {
  const out = new Float64Array(3 * size * size);
  const norm = a * a + b * b;
  const samples = 8;
  for (let y = 0; y < size; y++) {
    for (let x = 0; x < size; x++) {
      for (let s = 0; s < samples * samples; s++) {
        const u = x + ((s % samples) + 0.5) / samples - c;
        const v = y + (Math.floor(s / samples) + 0.5) / samples - d;
        for (let k = 0; k < 3; k++) {
          const i = (k * size + y) * size + x;
          out[i] =
            (out[i] as number) +
            at(picture, (a * u + b * v) / norm, (a * v - b * u) / norm, k) / samples ** 2;
        }
      }
    }
  }
  return out;
}

/** Returns the mean of red, green and blue (0–1) of a crop that a template places. */
export function referenceMeans(
  picture: Picture,
  five: readonly Point[],
  template: readonly (readonly [number, number])[],
  size: number,
): number[] {
  const goal = template.map(([x, y]) => ({ x: x * size, y: y * size }));
  const planes = cropPlanes(picture, solveSimilarity(five, goal), size);
  return [0, 1, 2].map((c) => {
    const part = planes.subarray(c * size * size, (c + 1) * size * size);
    return part.reduce((sum, value) => sum + value, 0) / part.length;
  });
}

/** Returns the tiny recogniser's embedding of a face. */
export function referenceEmbedding(picture: Picture, five: readonly Point[]): Float64Array {
  const means = referenceMeans(picture, five, ARCFACE_112_V2, 112).map((mean) => 2 * mean - 1);
  return Float64Array.from(EMBEDDING_OFFSET, (offset, i) =>
    means.reduce((sum, mean, c) => sum + mean * (EMBEDDING_WEIGHTS[c * LENGTH + i] as number), offset),
  );
}

export function unit(vector: Float64Array): Float64Array {
  const norm = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return vector.map((value) => value / norm);
}

/** Returns embedding × emap, divided by the length of the embedding. */
export function throughEmap(embedding: Float64Array): Float64Array {
  const direction = unit(embedding);
  return Float64Array.from({ length: LENGTH }, (_, j) =>
    direction.reduce((sum, value, i) => sum + value * (EMAP[i * LENGTH + j] as number), 0),
  );
}

/** Returns the colour that the tiny swapper gives to an identity. */
export function referenceColour(vector: Float64Array): number[] {
  return [0, 1, 2].map((c) => {
    const logit = vector.reduce((sum, value, i) => sum + value * (COLOUR_WEIGHTS[i * 3 + c] as number), 0);
    return 1 / (1 + Math.exp(-logit));
  });
}

export interface ReferenceSwap {
  readonly size: number;
  /** Template points as shares of the crop. */
  readonly template: readonly (readonly [number, number])[];
  readonly mean: readonly number[];
  readonly deviation: readonly number[];
  readonly denormalise: boolean;
}

/** Returns the swapped crop (0–255) and its position. */
export function referenceSwap(
  picture: Picture,
  five: readonly Point[],
  colour: readonly number[],
  { size, template, mean, deviation, denormalise }: ReferenceSwap,
): { readonly to: Similarity; read(x: number, y: number, channel: number): number } {
  const to = solveSimilarity(
    five,
    template.map(([x, y]) => ({ x: x * size, y: y * size })),
  );
  const planes = cropPlanes(picture, to, size);
  const pixels = size * size;
  const swapped = planes.map((value, i) => {
    const c = Math.floor(i / pixels);
    const input = (value - (mean[c] as number)) / (deviation[c] as number);
    const output = input * (1 - COLOUR_SHARE) + (colour[c] as number) * COLOUR_SHARE;
    return (
      255 *
      Math.min(1, Math.max(0, denormalise ? output * (deviation[c] as number) + (mean[c] as number) : output))
    );
  });
  return {
    to,
    read(x, y, channel) {
      // Samples the crop between its pixels.
      const u = to.a * x - to.b * y + to.c - 0.5;
      const v = to.b * x + to.a * y + to.d - 0.5;
      const [x0, y0] = [Math.floor(u), Math.floor(v)];
      const value = (i: number, j: number): number =>
        swapped[
          channel * pixels + Math.min(size - 1, Math.max(0, j)) * size + Math.min(size - 1, Math.max(0, i))
        ] as number;
      const [fx, fy] = [u - x0, v - y0];
      return (
        value(x0, y0) * (1 - fx) * (1 - fy) +
        value(x0 + 1, y0) * fx * (1 - fy) +
        value(x0, y0 + 1) * (1 - fx) * fy +
        value(x0 + 1, y0 + 1) * fx * fy
      );
    },
  };
}
