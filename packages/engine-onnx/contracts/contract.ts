import type { OnnxType } from '@semblance/vision/models/onnx-types';
import { z } from 'zod';
import type { OnnxSummary } from '../onnx-file.ts';

/**
 * The stages of a pipeline, each done by a model. A model directory has at most one model for each stage except
 * those whose contracts say `several`.
 */
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
  'speech',
] as const;
export type Stage = (typeof STAGES)[number];

/**
 * One size of a tensor:
 * - a number: this size
 * - `batch`: 1 or open, where open allows several items at once
 * - `open`: a size that the model must leave open, and its value in the first run
 * - `ran`: a size of an output that counts only in a run, whatever the file declares
 * - `any`: any size
 */
export type Dim = number | 'batch' | 'any' | { readonly open: number } | { readonly ran: number };

/**
 * A change of a graph in memory, which leaves the owner's file as it is: that of a voice (see `speechGraph`), or
 * `classes`, for a network that classifies pixels (see `classGraph`).
 */
export type GraphEdit = SpeechEdit | 'classes';
export type SpeechEdit = 'piper' | 'kokoro';

export interface TensorSpec {
  /** Name in the pipeline, and in the model unless `free`. */
  readonly name: string;
  /** The model may use any name; the position in the list counts. */
  readonly free?: boolean;
  /** Other names that a model may use. */
  readonly aliases?: readonly string[];
  readonly types: readonly OnnxType[];
  readonly dims: readonly Dim[];
  /** Other accepted shapes, such as one without the batch. */
  readonly otherwise?: readonly (readonly Dim[])[];
  /** The model may lack it. */
  readonly optional?: boolean;
  /** Value of its elements in the first run; default 0. */
  readonly first?: number;
  /** For an output: the reader uses and checks only a few of its values; the others may be NaN or infinite. */
  readonly partly?: boolean;
}

export interface Tensors {
  readonly inputs: readonly TensorSpec[];
  /** The first outputs of the model, in this order; it may have more. */
  readonly outputs: readonly TensorSpec[];
}

/** Properties of a model besides its tensors. Every number is part of the contract, none is a guess. */
export interface Traits {
  /** Side of the square input, in pixels. */
  readonly size?: number;
  /** Five-point template that places the crop. */
  readonly template?: TemplateName;
  /** Mean of input samples in [0, 1], by channel. */
  readonly mean?: readonly [number, number, number];
  readonly deviation?: readonly [number, number, number];
  /** Whether the output has to be scaled back by mean and deviation. */
  readonly denormalise?: boolean;
  /** Order of the colour planes; default `rgb`. */
  readonly order?: 'rgb' | 'bgr';
  /** Form in which a swapper expects the identity; `own`: it has one of its own and takes none. */
  readonly identity?: 'emap' | 'normalised' | 'converted' | 'converted-normalised' | 'picture' | 'own';
  /** The crop of the source's face that a swapper takes, if its identity is a picture. */
  readonly source?: { readonly size: number; readonly template: TemplateName };
}

export type TemplateName =
  | 'arcface_112_v1'
  | 'arcface_112_v2'
  | 'arcface_128'
  | 'dfl_whole_face'
  | 'ffhq_512'
  | 'mtcnn_512';

export interface Contract {
  readonly name: string;
  readonly stage: Stage;
  /**
   * Whether a directory may have several models of its stage:
   * - true: each is used by its name
   * - `by-size`: the first is used whose options `min_face` and `max_face` fit the face
   * - `by-contract`: one for each contract, used by the models that need it
   */
  readonly several?: boolean | 'by-size' | 'by-contract';
  /** Numbers, and words of a fixed list. */
  readonly options: z.ZodType<Readonly<Record<string, number | string>>>;
  readonly traits: Traits;
  /** @param found the model as its file declares it, for sizes that the model itself fixes */
  tensors(options: Readonly<Record<string, number>>, found: OnnxSummary): Tensors;
  /** How the graph is changed on its way from the file into the runtime; see {@link GraphEdit}. */
  readonly edit?: GraphEdit;
  /** Contracts that must be present too, because this model cannot work without them. */
  readonly needs?: readonly string[];
  /** Returns the stages for which a model must be present too, because of these options. */
  needsStages?(options: Readonly<Record<string, number | string>>): readonly Stage[];
}

/** How samples in [0, 1] are scaled for a network: not at all, to [-1, 1], or as those of ImageNet. */
export const UNIT = { mean: [0, 0, 0], deviation: [1, 1, 1] } as const;
export const SIGNED = { mean: [0.5, 0.5, 0.5], deviation: [0.5, 0.5, 0.5] } as const;
export const IMAGENET = { mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225] } as const;

/** Options of a model that is only used for faces of a size: widths in pixels of the picture. */
export const FACE_SIZE = {
  min_face: z.number().int().min(0).default(0),
  max_face: z.number().int().min(0).default(65_535),
} as const;

/** Refuses sizes that no face has. */
export function withSomeFace<T extends z.ZodType<{ min_face: number; max_face: number }>>(options: T): T {
  return options.refine(({ min_face: least, max_face: most }) => least <= most, {
    path: ['min_face'],
    message: 'must not be more than max_face',
  });
}

/** The schema of an option that is a share. */
export const share = z.number().min(0).max(1);

const FLOATS: readonly OnnxType[] = ['float32', 'float16'];

export function floats(name: string, dims: readonly Dim[], more: Partial<TensorSpec> = {}): TensorSpec {
  return { name, types: FLOATS, dims, ...more };
}

/** Returns the spec of the planes of a square picture, red, green and blue or the reverse. */
export function picture(name: string, size: number, more: Partial<TensorSpec> = {}): TensorSpec {
  return floats(name, ['batch', 3, size, size], more);
}

/** Returns a contract whose tensors do not depend on options. */
export function fixed(
  name: string,
  stage: Stage,
  traits: Traits,
  inputs: readonly TensorSpec[],
  outputs: readonly TensorSpec[],
  more: Partial<Pick<Contract, 'options' | 'needs' | 'needsStages' | 'several'>> = {},
): Contract {
  return { name, stage, traits, options: z.strictObject({}), tensors: () => ({ inputs, outputs }), ...more };
}

/** Every shape that a tensor may have. */
export function shapesOf({ dims, otherwise = [] }: TensorSpec): readonly (readonly Dim[])[] {
  return [dims, ...otherwise];
}

/** Returns a description such as `float32 or float16 [1 or open, 3, 112, 112]`. */
export function describeSpec(spec: TensorSpec): string {
  const shape = (dims: readonly Dim[]): string => `[${dims.map(describeDim).join(', ')}]`;
  return `${spec.types.join(' or ')} ${shapesOf(spec).map(shape).join(' or ')}`;
}

function describeDim(dim: Dim): string {
  if (dim === 'batch') return '1 or open';
  if (dim === 'any') return 'any';
  if (typeof dim === 'number') return String(dim);
  return 'open' in dim ? 'open' : String(dim.ran);
}
