import { GraphBuilder } from './graph.ts';
import type { GivenModel } from './model-dir-rig.ts';
import { noise } from './tiny-models.ts';

/**
 * The six parts of LivePortrait with the inputs and outputs of FaceFusion's files. Each computes something simple
 * enough to check by hand that depends on every input.
 */

const POINTS = 63;
/** Fields per side; the motion extractor uses the mean of each colour in each field. */
export const CELLS = 4;
const SEEN = 3 * CELLS * CELLS;
/** Number of values in a square of 4 × 4 pixels. */
const SQUARE = 48;
/** Length of a motion: three angles, scale, translation, expression, key points. */
export const MOTION_LENGTH = 3 + 1 + 3 + 2 * POINTS;

function filled(gains: readonly (readonly [count: number, gain: number])[]): Float32Array {
  return Float32Array.from(gains.flatMap(([count, gain]) => new Array<number>(count).fill(gain)));
}

const GAINS = filled([
  [3, 30],
  [1, 0.1],
  [3, 0.08],
  [POINTS, 0.04],
  [POINTS, 0.02],
]);
/** Weights from the field means, less a half, to the numbers of a motion. */
export const MOTION_WEIGHTS = noise(SEEN * MOTION_LENGTH, 21).map(
  (value, i) => value * (GAINS[i % MOTION_LENGTH] as number),
);
export const MOTION_OFFSET = noise(MOTION_LENGTH, 22).map((value, i) => {
  if (i < 3) return 10 * value;
  if (i === 3) return 1.3;
  return value * (i < 7 ? 0.05 : i < 7 + POINTS ? 0.03 : 0.4);
});
/** Weights from the source face and the wanted face to the stitcher's addition and shift. */
export const STITCH_WEIGHTS = noise(2 * POINTS * (POINTS + 2), 23).map((value) => 0.02 * value);
/** Weights from the wanted and the source key points to a colour for each of 4 × 4 fields. */
export const COLOUR_WEIGHTS = noise(2 * POINTS * SEEN, 24).map((value, i) =>
  i < POINTS * SEEN ? value : 0.5 * value,
);
export const EYE_WEIGHTS = noise((POINTS + 3) * POINTS, 25).map((value) => 0.05 * value);
export const LIP_WEIGHTS = noise((POINTS + 2) * POINTS, 26).map((value) => 0.05 * value);

type Batch = number | string;

function columns(graph: GraphBuilder, from: string, start: number, end: number): string {
  return graph.op('Slice', [...[from, graph.integers([start]), graph.integers([end]), graph.integers([1])]]);
}

/** Returns a model whose first 48 channels hold squares of 4 × 4 pixels and whose other channels mix them. */
function tinyFeatures(batch: Batch = 1): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const input = graph.input('input', [batch, 3, 256, 256]);
  const squares = graph.op('SpaceToDepth', [input], { blocksize: 4 });
  const weights = noise(512 * SQUARE, 27);
  for (let i = 0; i < SQUARE * SQUARE; i++) weights[i] = i % (SQUARE + 1) === 0 ? 1 : 0;
  const channels = graph.op('Conv', [squares, graph.weight(weights, [512, SQUARE, 1, 1])]);
  const volume = graph.op('Reshape', [channels, graph.integers([-1, 32, 16, 64, 64])]);
  graph.output(volume, 'feature_volume', [batch, 32, 16, 64, 64]);
  return graph.build();
}

/** @param angles shape of pitch, yaw and roll; those of FaceFusion are scalars */
export function tinyMotion(batch: Batch = 1, angles: (number | string)[] = []): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const input = graph.input('input', [batch, 3, 256, 256]);
  const side = 256 / CELLS;
  const means = graph.op('AveragePool', [input], { kernel_shape: [side, side], strides: [side, side] });
  const seen = graph.op('Sub', [graph.op('Flatten', [means], { axis: 1 }), graph.weight([0.5], [])]);
  const product = graph.op('MatMul', [seen, graph.weight(MOTION_WEIGHTS, [SEEN, MOTION_LENGTH])]);
  const motion = graph.op('Add', [product, graph.weight(MOTION_OFFSET, [MOTION_LENGTH])]);
  let at = 0;
  const take = (count: number, name: string, dims: (number | string)[]): void => {
    const part = columns(graph, motion, at, at + count);
    const shape = dims.map((dim) => (typeof dim === 'string' ? -1 : dim));
    graph.output(graph.op('Reshape', [part, graph.integers(shape)]), name, dims);
    at += count;
  };
  for (const name of ['pitch', 'yaw', 'roll']) take(1, name, angles);
  take(1, 'scale', [batch, 1]);
  take(3, 'translation', [batch, 3]);
  take(POINTS, 'expression', [batch, 21, 3]);
  take(POINTS, 'motion_points', [batch, 21, 3]);
  return graph.build();
}

/**
 * Returns a model that mixes the picture of the volume with colours that depend on the key points. @param share of
 * the colours
 */
function tinyGenerator(batch: Batch = 1, share = 0.5): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const volume = graph.input('feature_volume', [batch, 32, 16, 64, 64]);
  const source = graph.input('source', [batch, 21, 3]);
  const target = graph.input('target', [batch, 21, 3]);
  const enlarge = (from: string, factor: number): string =>
    graph.op('Resize', [from, '', graph.weight([1, 1, factor, factor], [4])], {
      mode: 'nearest',
      coordinate_transformation_mode: 'asymmetric',
      nearest_mode: 'floor',
    });
  const channels = graph.op('Reshape', [volume, graph.integers([-1, 512, 64, 64])]);
  const squares = columns(graph, channels, 0, SQUARE);
  const picture = enlarge(graph.op('DepthToSpace', [squares], { blocksize: 4 }), 2);
  const logits = graph.op('MatMul', [
    pair(graph, source, target),
    graph.weight(COLOUR_WEIGHTS, [2 * POINTS, SEEN]),
  ]);
  const fields = graph.op('Reshape', [graph.op('Sigmoid', [logits]), graph.integers([-1, 3, CELLS, CELLS])]);
  const seen = graph.op('Mul', [picture, graph.weight([1 - share], [])]);
  const told = graph.op('Mul', [enlarge(fields, 512 / CELLS), graph.weight([share], [])]);
  graph.output(graph.op('Add', [seen, told]), 'output', [batch, 3, 512, 512]);
  return graph.build();
}

/**
 * Returns a model that adds to `source` the product of 126 numbers and a matrix: 63 numbers, and a shift in x and
 * y.
 */
function tinyStitcher(batch: Batch = 1): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const source = graph.input('source', [batch, 21, 3]);
  const target = graph.input('target', [batch, 21, 3]);
  const delta = graph.op('MatMul', [
    pair(graph, target, source),
    graph.weight(STITCH_WEIGHTS, [2 * POINTS, POINTS + 2]),
  ]);
  const points = graph.op('Reshape', [columns(graph, delta, 0, POINTS), graph.integers([-1, 21, 3])]);
  const flat = graph.op('Pad', [columns(graph, delta, POINTS, POINTS + 2), graph.integers([0, 0, 0, 1])]);
  const shift = graph.op('Reshape', [flat, graph.integers([-1, 1, 3])]);
  graph.output(graph.op('Add', [graph.op('Add', [source, points]), shift]), 'output', [batch, 21, 3]);
  return graph.build();
}

function pair(graph: GraphBuilder, first: string, second: string): string {
  const flat = [first, second].map((name) => graph.op('Flatten', [name], { axis: 1 }));
  return graph.op('Concat', flat, { axis: 1 });
}

function tinyRetargeter(weights: Float32Array): Uint8Array<ArrayBuffer> {
  const length = weights.length / POINTS;
  const graph = new GraphBuilder();
  const input = graph.input('input', [1, length]);
  graph.output(graph.op('MatMul', [input, graph.weight(weights, [length, POINTS])]), 'output', [1, POINTS]);
  return graph.build();
}

/** Creates the four parts that LivePortrait requires. */
export function tinyLivePortrait(
  batch: Batch = 1,
  options: Record<string, unknown> = {},
  share = 0.5,
): GivenModel[] {
  const angles = typeof batch === 'string' ? [batch, 1] : [];
  return [
    { contract: 'live_portrait_feature_extractor', bytes: tinyFeatures(batch) },
    { contract: 'live_portrait_motion_extractor', bytes: tinyMotion(batch, angles), options },
    { contract: 'live_portrait_generator', bytes: tinyGenerator(batch, share) },
    { contract: 'live_portrait_stitcher', bytes: tinyStitcher(batch) },
  ];
}

/** Creates the two optional parts. */
export function tinyRetargeters(close?: number): GivenModel[] {
  return [
    { contract: 'live_portrait_eye_retargeter', bytes: tinyRetargeter(EYE_WEIGHTS) },
    {
      contract: 'live_portrait_lip_retargeter',
      bytes: tinyRetargeter(LIP_WEIGHTS),
      options: close === undefined ? {} : { close },
    },
  ];
}
