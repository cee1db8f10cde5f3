import type { OnnxType } from '@semblance/vision/models/onnx-types';
import { z } from 'zod';
import type { OnnxSummary } from '../onnx-file.ts';

/** States what a model does in a pipeline. Of each but `voice` there is at most one in a model directory. */
export const STAGES = [
  'detector',
  'landmarks',
  'recogniser',
  'converter',
  'swapper',
  'enhancer',
  'occlusion',
  'parser',
  'lips',
  'portrait-features',
  'portrait-motion',
  'portrait-generator',
  'portrait-stitcher',
  'portrait-eyes',
  'portrait-lips',
  'voice',
  'voice-content-256',
  'voice-content-768',
  'voice-pitch',
] as const;
export type Stage = (typeof STAGES)[number];

/**
 * One size of a tensor: a number; `batch`: 1 or open, in which case several items go in at once; or one that the
 * model must leave open, with its value in the first run.
 */
export type Dim = number | 'batch' | { readonly open: number };

export interface TensorSpec {
  /** Name by which the pipeline calls it, and the model too unless `free`. */
  readonly name: string;
  /** The model may call it as it likes; its place in the list counts. */
  readonly free?: boolean;
  readonly types: readonly OnnxType[];
  readonly dims: readonly Dim[];
  /** Other shapes that mean the same, such as one without the batch. */
  readonly otherwise?: readonly (readonly Dim[])[];
  /** The model may lack it. */
  readonly optional?: boolean;
  /** Its values in the first run; 0 unless said. */
  readonly first?: number;
  /** Of an output: whoever reads it uses a few of its values and looks at those; the others may be NaN or infinite. */
  readonly partly?: boolean;
}

export interface Tensors {
  readonly inputs: readonly TensorSpec[];
  /** In this order at the start of the model's outputs; it may have more. */
  readonly outputs: readonly TensorSpec[];
}

/** Holds what is known of a model besides its tensors. Every number here is data of the contract, none is a guess. */
export interface Traits {
  /** Side of the square that goes in, pixels. */
  readonly size?: number;
  /** Five-point template that places the crop. */
  readonly template?: TemplateName;
  /** Of input samples in [0, 1], channel by channel. */
  readonly mean?: readonly [number, number, number];
  readonly deviation?: readonly [number, number, number];
  /** Tells whether the output has to be scaled back by mean and deviation. */
  readonly denormalise?: boolean;
  /** Which colour's plane comes first; default `rgb`. */
  readonly order?: 'rgb' | 'bgr';
  /** How a swapper wants the identity. */
  readonly identity?: 'emap' | 'normalised' | 'converted' | 'converted-normalised';
}

export type TemplateName = 'arcface_112_v1' | 'arcface_112_v2' | 'arcface_128' | 'ffhq_512' | 'mtcnn_512';

export interface Contract {
  readonly name: string;
  readonly stage: Stage;
  /** Tells whether a directory may have several of its stage, each used by its name. */
  readonly several?: boolean;
  readonly options: z.ZodType<Readonly<Record<string, number>>>;
  readonly traits: Traits;
  /** @param found the model as its file declares it, for sizes that the model itself fixes */
  tensors(options: Readonly<Record<string, number>>, found: OnnxSummary): Tensors;
  /** Contracts of which one must be there too: without it this model cannot work. */
  readonly needs?: readonly string[];
}

export const FLOATS: readonly OnnxType[] = ['float32', 'float16'];

/** A float tensor. */
export function floats(name: string, dims: readonly Dim[], more: Partial<TensorSpec> = {}): TensorSpec {
  return { name, types: FLOATS, dims, ...more };
}

/** Planes of red, green and blue (or the reverse) of a square. */
export function picture(name: string, size: number, more: Partial<TensorSpec> = {}): TensorSpec {
  return floats(name, ['batch', 3, size, size], more);
}

/** A contract whose tensors do not depend on options. */
export function fixed(
  name: string,
  stage: Stage,
  traits: Traits,
  inputs: readonly TensorSpec[],
  outputs: readonly TensorSpec[],
  more: Partial<Pick<Contract, 'options' | 'needs'>> = {},
): Contract {
  return { name, stage, traits, options: z.strictObject({}), tensors: () => ({ inputs, outputs }), ...more };
}

/** Every shape that a tensor may have. */
export function shapesOf({ dims, otherwise = [] }: TensorSpec): readonly (readonly Dim[])[] {
  return [dims, ...otherwise];
}

/** `float32 or float16 [1 or open, 3, 112, 112]` */
export function describeSpec(spec: TensorSpec): string {
  const shape = (dims: readonly Dim[]): string => `[${dims.map(describeDim).join(', ')}]`;
  return `${spec.types.join(' or ')} ${shapesOf(spec).map(shape).join(' or ')}`;
}

function describeDim(dim: Dim): string {
  if (dim === 'batch') return '1 or open';
  return typeof dim === 'number' ? String(dim) : 'open';
}
