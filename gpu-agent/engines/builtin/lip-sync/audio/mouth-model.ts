import { readFileSync } from 'node:fs';
import { BANDS } from './log-mel.ts';

/** Frames around the present one that the model hears: 130 ms to each side, sparser further away. */
export const CONTEXT = [-13, -9, -6, -4, -2, -1, 0, 1, 2, 4, 6, 9, 13] as const;
/** How far the model looks ahead, frames. */
export const LOOK_AHEAD = 13;
export const INPUTS = CONTEXT.length * BANDS;
/** What it says of a frame: openness, spread and rounding (see MouthPose), and the log odds that the lips are closed. */
export const OUTPUTS = ['openness', 'spread', 'rounding', 'closure'] as const;

/** Unit of the openness in the network, so that all its outputs are of one size. */
export const OPENNESS_UNIT = 0.1;

/** A network of one hidden layer of rectified units. Matrices are rows of inputs, one row a unit. */
export interface MouthWeights {
  readonly hidden: number;
  readonly mean: Float32Array;
  readonly scale: Float32Array;
  readonly inner: Float32Array;
  readonly innerBias: Float32Array;
  readonly outer: Float32Array;
  readonly outerBias: Float32Array;
}

/** The committed file: sizes, and each array as base64 of little-endian 32-bit floats. */
export interface MouthWeightsFile {
  readonly format: 'semblance-mouth/1';
  readonly hidden: number;
  /** {@link CONTEXT}, separated by spaces. */
  readonly context: string;
  readonly bands: number;
  readonly arrays: Readonly<Record<(typeof ARRAYS)[number], string>>;
  /** What the training found with voices it did not train on, and what a training on few sentences must give again. */
  readonly notes: {
    readonly heldOut: Readonly<Record<string, number>>;
    readonly probe: string;
  };
}

const ARRAYS = ['mean', 'scale', 'inner', 'innerBias', 'outer', 'outerBias'] as const;
const FILE = new URL('./mouth-weights.json', import.meta.url);

export function readWeightsFile(): MouthWeightsFile {
  return JSON.parse(readFileSync(FILE, 'utf8')) as MouthWeightsFile;
}

/** @throws Error for weights made for other features */
export function decodeWeights(file: MouthWeightsFile): MouthWeights {
  if (file.format !== 'semblance-mouth/1' || file.bands !== BANDS || file.context !== CONTEXT.join(' '))
    throw new Error('the mouth weights were made for other features; train them again');
  const array = (name: (typeof ARRAYS)[number]): Float32Array => decodeFloats(file.arrays[name]);
  return {
    hidden: file.hidden,
    mean: array('mean'),
    scale: array('scale'),
    inner: array('inner'),
    innerBias: array('innerBias'),
    outer: array('outer'),
    outerBias: array('outerBias'),
  };
}

export function encodeWeights(weights: MouthWeights, notes: MouthWeightsFile['notes']): MouthWeightsFile {
  const arrays = Object.fromEntries(ARRAYS.map((name) => [name, encodeFloats(weights[name])]));
  return {
    format: 'semblance-mouth/1',
    hidden: weights.hidden,
    context: CONTEXT.join(' '),
    bands: BANDS,
    arrays: arrays as MouthWeightsFile['arrays'],
    notes,
  };
}

export function encodeFloats(values: ArrayLike<number>): string {
  const bytes = Buffer.alloc(values.length * 4);
  for (let i = 0; i < values.length; i++) bytes.writeFloatLE(values[i] as number, i * 4);
  return bytes.toString('base64');
}

export function decodeFloats(text: string): Float32Array {
  const bytes = Buffer.from(text, 'base64');
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(i * 4));
}

/** Least and most of a band relative to the level of the recording: below is silence, above clipping. */
const RANGE = [-9, 4] as const;

/**
 * The network's input at a frame: bands around it relative to the level of the recording. Frames before the start and
 * after the end are silence.
 * @param frames log-mel frames; @param index of the frame among them
 */
export function inputAt(frames: Float32Array, index: number, level: number, out: Float32Array): void {
  const count = frames.length / BANDS;
  let k = 0;
  for (const offset of CONTEXT) {
    const at = (index + offset) * BANDS;
    const inside = index + offset >= 0 && index + offset < count;
    for (let b = 0; b < BANDS; b++) {
      const value = inside ? (frames[at + b] as number) - level : RANGE[0];
      out[k++] = Math.min(RANGE[1], Math.max(RANGE[0], value));
    }
  }
}

export class MouthModel {
  readonly #weights: MouthWeights;
  readonly #input = new Float32Array(INPUTS);

  constructor(weights: MouthWeights = decodeWeights(readWeightsFile())) {
    this.#weights = weights;
  }

  /** @param out openness (IOD), spread, rounding, closure (probability) */
  run(frames: Float32Array, index: number, level: number, out: Float32Array): void {
    const { hidden, mean, scale, inner, innerBias, outer, outerBias } = this.#weights;
    const input = this.#input;
    inputAt(frames, index, level, input);
    for (let i = 0; i < INPUTS; i++)
      input[i] = ((input[i] as number) - (mean[i] as number)) * (scale[i] as number);
    out.set(outerBias);
    for (let h = 0; h < hidden; h++) {
      let sum = innerBias[h] as number;
      const row = h * INPUTS;
      for (let i = 0; i < INPUTS; i++) sum += (inner[row + i] as number) * (input[i] as number);
      if (sum <= 0) continue;
      for (let o = 0; o < OUTPUTS.length; o++)
        out[o] = (out[o] as number) + (outer[o * hidden + h] as number) * sum;
    }
    out[0] = (out[0] as number) * OPENNESS_UNIT;
    out[3] = 1 / (1 + Math.exp(-(out[3] as number)));
  }
}
