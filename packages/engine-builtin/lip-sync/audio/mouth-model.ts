import { readFileSync } from 'node:fs';
import { BANDS } from './log-mel.ts';
import { decodeNetwork, type EncodedNetwork, encodeNetwork, type Network, runNetwork } from './network.ts';

/** Frames around the current one that the model uses: 130 ms on each side, sparser with distance. */
const CONTEXT = [-13, -9, -6, -4, -2, -1, 0, 1, 2, 4, 6, 9, 13] as const;
/** Frames that the model looks ahead. */
export const LOOK_AHEAD = 13;
export const INPUTS = CONTEXT.length * BANDS;
/**
 * Outputs of the model for a frame: openness, spread and rounding (see MouthPose), and the log odds that the lips
 * are closed.
 */
export const OUTPUTS = ['openness', 'spread', 'rounding', 'closure'] as const;

/** Unit of the openness inside the network, so that all its outputs have a similar size. */
export const OPENNESS_UNIT = 0.1;

/** The committed file: sizes, and each array as base64 of little-endian 32-bit floats. */
export interface MouthWeightsFile {
  readonly format: 'semblance-mouth/1';
  readonly hidden: number;
  /** {@link CONTEXT}, separated by spaces. */
  readonly context: string;
  readonly bands: number;
  readonly arrays: EncodedNetwork;
  /**
   * Results of the training on voices outside its training set, and the result that a training on few sentences
   * must reproduce.
   */
  readonly notes: {
    readonly heldOut: Readonly<Record<string, number>>;
    readonly probe: string;
  };
}

const FILE = new URL('./mouth-weights.json', import.meta.url);

export function readWeightsFile(): MouthWeightsFile {
  return JSON.parse(readFileSync(FILE, 'utf8')) as MouthWeightsFile;
}

/** @throws Error for weights made for other features */
export function decodeWeights(file: MouthWeightsFile): Network {
  if (file.format !== 'semblance-mouth/1' || file.bands !== BANDS || file.context !== CONTEXT.join(' '))
    throw new Error('the mouth weights were made for other features; train them again');
  return decodeNetwork(file.hidden, file.arrays);
}

export function encodeWeights(weights: Network, notes: MouthWeightsFile['notes']): MouthWeightsFile {
  return {
    format: 'semblance-mouth/1',
    hidden: weights.hidden,
    context: CONTEXT.join(' '),
    bands: BANDS,
    arrays: encodeNetwork(weights),
    notes,
  };
}

/** Lowest and highest value of a band relative to the level of the recording: silence and clipping lie outside. */
const RANGE = [-9, 4] as const;

/**
 * Computes the input of the network at a frame: bands around it relative to the level of the recording. Frames
 * outside the recording are silent.
 * @param frames log-mel frames; @param index of the frame among them
 */
export function inputAt(frames: Float32Array, index: number, level: number, out: Float32Array): void {
  let k = 0;
  for (const offset of CONTEXT)
    for (let b = 0; b < BANDS; b++) out[k++] = bandAt(frames, index + offset, b, level);
}

/** Returns a band of a frame relative to the level of the recording; silence outside the recording. */
export function bandAt(frames: Float32Array, index: number, band: number, level: number): number {
  const at = index * BANDS;
  const value = at >= 0 && at < frames.length ? (frames[at + band] as number) - level : RANGE[0];
  return Math.min(RANGE[1], Math.max(RANGE[0], value));
}

export class MouthModel {
  readonly #network: Network;
  readonly #input = new Float32Array(INPUTS);

  constructor(network: Network = decodeWeights(readWeightsFile())) {
    this.#network = network;
  }

  /** @param out openness (IOD), spread, rounding, closure (probability) */
  run(frames: Float32Array, index: number, level: number, out: Float32Array): void {
    inputAt(frames, index, level, this.#input);
    runNetwork(this.#network, this.#input, out);
    out[0] = (out[0] as number) * OPENNESS_UNIT;
    out[3] = 1 / (1 + Math.exp(-(out[3] as number)));
  }
}
