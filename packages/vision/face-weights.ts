import { readFileSync } from 'node:fs';

/** A linear classifier: the likeness to a face is `bias + weights · values`. */
export interface FaceWeights {
  readonly bias: number;
  readonly weights: Float32Array;
}

/**
 * Reads a classifier that tools/train-face-check trained.
 * @param inputs number of values that it reads
 * @throws Error when the file is for another number
 */
export function readWeights(name: string, inputs: number): FaceWeights {
  const { bias, scale, weights } = JSON.parse(readFileSync(new URL(name, import.meta.url), 'utf8')) as {
    bias: number;
    scale: number;
    weights: string;
  };
  const bytes = new Int8Array(Buffer.from(weights, 'base64'));
  if (bytes.length !== inputs) throw new Error(`${name} has ${bytes.length} weights, not ${inputs}`);
  return { bias, weights: Float32Array.from(bytes, (value) => value * scale) };
}

/** Returns the likeness of values to a face; above 0 it is more likely one. */
export function likenessOf({ bias, weights }: FaceWeights, values: Float32Array): number {
  return weights.reduce((sum, weight, i) => sum + weight * (values[i] as number), bias);
}
