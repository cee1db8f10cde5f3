import type { Picture } from '@semblance/engine-api/picture';
import { cropRgb, type Point } from '@semblance/vision/picture';
import { type Contract, UNIT } from '../contracts/contract.ts';
import { PLAIN_WEIGHT } from '../contracts/swappers.ts';
import { type OnnxTensorInfo, readOnnxTensor } from '../onnx-file.ts';
import type { FloatTensor } from '../sessions/protocol.ts';
import { alignFace } from '../vision/align.ts';
import { toPlanes } from '../vision/tensors.ts';
import type { Models, OpenModel, StageLog } from './models.ts';

const LENGTH = 512;
/** Share of the target's identity at the ends of the scale. */
const WEIGHT_REACH = 0.35;

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

/**
 * Returns the average of embeddings of one person: the mean of their directions, with the mean of their lengths, which
 * some converters use. A single one stays as it is.
 */
export function averaged(embeddings: readonly Float32Array[]): Float32Array {
  const [first = new Float32Array()] = embeddings;
  if (embeddings.length < 2) return first;
  const mean = new Float32Array(first.length);
  let length = 0;
  for (const one of embeddings) {
    const own = Math.hypot(...one);
    length += own / embeddings.length;
    for (const [i, value] of one.entries()) mean[i] = (mean[i] as number) + value / Math.max(own, 1e-12);
  }
  const scale = length / Math.max(Math.hypot(...mean), 1e-12);
  return mean.map((value) => value * scale);
}

/** Emaps that were read, by model. */
const EMAPS = new WeakMap<object, Float32Array>();

/** Reads the emap of an inswapper from the end of its file. */
export function readEmap(swapper: OpenModel): Float32Array | undefined {
  const { lastInitializer, path, contract } = swapper.model;
  if (contract.traits.identity !== 'emap') return undefined;
  const known = EMAPS.get(swapper.model);
  if (known) return known;
  const emap = readOnnxTensor(path, lastInitializer as OnnxTensorInfo);
  EMAPS.set(swapper.model, emap);
  return emap;
}

/** Returns whether a swapper takes what a model of another stage makes of an embedding. */
export function isConverted({ traits: { identity } }: OpenModel): boolean {
  return identity === 'converted' || identity === 'converted-normalised';
}

/** Returns an identity in the form that the swapper expects. */
export async function identityFor(
  models: Models,
  { traits, choices, model }: OpenModel,
  embedding: Float32Array,
  emap: Float32Array | undefined,
  signal: AbortSignal,
  log: StageLog,
): Promise<FloatTensor> {
  const kind = traits.identity;
  if (kind === 'normalised') return asVector(normalised(embedding));
  if (kind === 'emap') {
    const latent = project(normalised(embedding), emap as Float32Array);
    // InsightFace divides by the length of the projected vector (`model_zoo/inswapper.py`), FaceFusion by that of
    // the embedding.
    return asVector(choices.latent_norm === 'projected' ? normalised(latent) : latent);
  }
  const converter = models.needed('converter', model);
  const { data } = await log.own('converter', () => converter.run({ input: asVector(embedding) }, signal));
  return asVector(kind === 'converted-normalised' ? normalised(data) : data);
}

/**
 * Moves an identity towards that of the target's own face, or away from it: at a weight of 0 it has 0.35 of the
 * target's, at 0.5 none, at 1 it is as far beyond (`balance_source_embedding` in FaceFusion's
 * `face_swapper/core.py`, which adds the target's embedding as it is, also to a projected or converted one).
 * @param target embedding of the target's face, not normalised
 */
export function balanced(
  { data, dims }: FloatTensor,
  target: Float32Array,
  weight: number,
  kind: Contract['traits']['identity'],
): FloatTensor {
  const share = 2 * WEIGHT_REACH * (PLAIN_WEIGHT - weight);
  const own = kind === 'converted' ? target : normalised(target);
  return { data: data.map((value, i) => value * (1 - share) + (own[i] as number) * share), dims };
}

/** Returns the crop of a source's face for a swapper that takes a picture: red, green and blue in [0, 1]. */
export function sourcePicture(swapper: OpenModel, picture: Picture, five: readonly Point[]): FloatTensor {
  const { size, template } = swapper.traits.source as NonNullable<Contract['traits']['source']>;
  return toPlanes(cropRgb(picture, alignFace(five, template, size), size, size), UNIT);
}

function asVector(values: Float32Array): FloatTensor {
  return { data: new Float32Array(values), dims: [1, LENGTH] };
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
