import type { IvfFlat } from '@semblance/engine-onnx/faiss-index';
import type { FloatTensor, FloatTensors } from '@semblance/engine-onnx/sessions/protocol';

/** The converter's view of a model, which can be sent to its thread. */
export interface VoiceModel {
  readonly name: string;
  readonly inputs: readonly { readonly role: string; readonly dims: readonly number[] }[];
  readonly options: Readonly<Record<string, number>>;
}

/** Features of the training of a voice, in memory that threads share. */
export interface VoiceIndex extends IvfFlat {
  /** The same for the same features. */
  readonly id: string;
}

/** The models of one voice. */
export interface RvcModels {
  readonly voice: VoiceModel;
  readonly content: VoiceModel;
  /** Finds the pitch. If undefined, `builtin`'s tracker does. */
  readonly pitch: VoiceModel | undefined;
  readonly index?: VoiceIndex | undefined;
}

/** Runs the model of that name and returns its first output. The buffers of the inputs are transferred. */
export type RunModel = (model: string, feeds: FloatTensors) => Promise<FloatTensor>;

/** @throws Error when a model gave another number of values than the stream needs */
export function assertLength(what: string, found: number, wanted: number): void {
  if (found !== wanted) throw new Error(`a voice model gave ${found} values of ${what} instead of ${wanted}`);
}
