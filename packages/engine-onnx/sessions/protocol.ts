import type { OnnxType } from '@semblance/vision/models/onnx-types';
import type { Gated } from '@semblance/vision/models/thread-gate';
import type { GraphEdit } from '../contracts/contract.ts';

export const PROVIDERS = ['cuda', 'cpu'] as const;
export type Provider = (typeof PROVIDERS)[number];

/** A model as a session thread needs it. */
export interface ThreadModel {
  readonly name: string;
  readonly path: string;
  readonly inputs: readonly ThreadTensor[];
  readonly outputs: readonly ThreadTensor[];
  /** Whether its file leaves the number of items open. */
  readonly batch: boolean;
  readonly edit?: GraphEdit | undefined;
}

export interface ThreadTensor {
  readonly role: string;
  readonly name: string;
  readonly type: OnnxType;
  readonly dims: readonly number[];
  /** Value of its elements in the first run. */
  readonly first: number;
}

export interface ThreadOptions extends Gated {
  readonly models: readonly ThreadModel[];
  /** In order of preference. */
  readonly providers: readonly Provider[];
  /** Number of the GPU. */
  readonly device: number;
  /** Number of threads of one run on the CPU. */
  readonly threads: number;
  /**
   * Numbers of items that runs may have, ascending from 1, for models that accept several. Default: fixed ones on a
   * GPU, any on the CPU, where padding would only cost time.
   */
  readonly sizes?: readonly number[];
}

/** Values in the form of the pipelines, whatever element type the model uses. */
export interface FloatTensor {
  readonly data: Float32Array<ArrayBuffer>;
  readonly dims: readonly number[];
}
export type FloatTensors = Readonly<Record<string, FloatTensor>>;

export interface ToSession {
  readonly id: number;
  readonly model: string;
  readonly feeds: FloatTensors;
}

export interface FirstRun {
  readonly model: string;
  readonly provider: Provider;
  /** Role of each output → its shape in the first run. */
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  /** Why the model gets one item at a time although its file leaves their number open. */
  readonly alone?: string;
  /** Numbers of items that have been run, ascending from 1, if no others may be. */
  readonly sizes?: readonly number[];
  /** Why larger runs of the model are not made: the device was full. */
  readonly full?: string;
}

export type FromSession =
  | { readonly type: 'ready'; readonly runs: readonly FirstRun[]; readonly notes: readonly string[] }
  | { readonly type: 'unusable'; readonly message: string }
  | { readonly type: 'done'; readonly id: number; readonly outputs: FloatTensors }
  | { readonly type: 'failed'; readonly id: number; readonly message: string };
