import type { FloatTensor, FloatTensors } from '@semblance/engine-onnx/sessions/protocol';

/** Holds what a converter has to know of a model. It can be sent to the thread in which the converter works. */
export interface VoiceModel {
  readonly name: string;
  readonly inputs: readonly { readonly role: string; readonly dims: readonly number[] }[];
  readonly options: Readonly<Record<string, number>>;
}

/** The models that speak with a voice. */
export interface RvcModels {
  readonly voice: VoiceModel;
  readonly content: VoiceModel;
  /** Finds the pitch; undefined: the tracker of `builtin` does. */
  readonly pitch: VoiceModel | undefined;
}

/** Runs the model of that name and returns its first output. Buffers of feeds are given away. */
export type RunModel = (model: string, feeds: FloatTensors) => Promise<FloatTensor>;
