import type { Picture } from '@semblance/engine-api/picture';
import { cropRgb, type Point } from '@semblance/vision/picture';
import { type OnnxTensorInfo, readOnnxTensor } from '../onnx-file.ts';
import { alignFace } from '../vision/align.ts';
import { toPlanes } from '../vision/tensors.ts';
import type { Models, OpenModel } from './models.ts';

const LENGTH = 512;

/** Returns the embedding of a face: 512 numbers, not normalised. */
export async function embed(
  recogniser: OpenModel,
  picture: Picture,
  five: readonly Point[],
  signal: AbortSignal,
): Promise<Float32Array> {
  const { size = 112, template = 'arcface_112_v2' } = recogniser.traits;
  const crop = cropRgb(picture, alignFace(five, template, size), size, size);
  const { data } = await recogniser.run({ input: toPlanes(crop, recogniser.traits) }, signal);
  return data;
}

/** Reads the emap of an inswapper from the end of its file. */
export function readEmap(swapper: OpenModel): Float32Array | undefined {
  const { lastInitializer, path, contract } = swapper.model;
  if (contract.traits.identity !== 'emap') return undefined;
  return readOnnxTensor(path, lastInitializer as OnnxTensorInfo);
}

/** Returns an identity in the form that the swapper expects. */
export async function identityFor(
  models: Models,
  embedding: Float32Array,
  emap: Float32Array | undefined,
  signal: AbortSignal,
): Promise<Float32Array<ArrayBuffer>> {
  const kind = models.need('swapper').traits.identity;
  if (kind === 'normalised') return normalised(embedding);
  if (kind === 'emap') return project(normalised(embedding), emap as Float32Array);
  const feeds = { input: { data: new Float32Array(embedding), dims: [1, LENGTH] } };
  const { data } = await models.need('converter').run(feeds, signal);
  return kind === 'converted-normalised' ? normalised(data) : new Float32Array(data);
}

/** Multiplies a row vector by a matrix. */
function project(vector: Float32Array, matrix: Float32Array): Float32Array<ArrayBuffer> {
  const sums = new Float64Array(LENGTH);
  for (let i = 0; i < LENGTH; i++) {
    const weight = vector[i] as number;
    for (let j = 0; j < LENGTH; j++)
      sums[j] = (sums[j] as number) + weight * (matrix[i * LENGTH + j] as number);
  }
  return new Float32Array(sums);
}

function normalised(vector: Float32Array): Float32Array<ArrayBuffer> {
  const norm = Math.hypot(...vector) || 1;
  return new Float32Array(vector.map((value) => value / norm));
}
