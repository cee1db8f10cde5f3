import type { FloatTensor, FloatTensors } from '@semblance/engine-onnx/sessions/protocol';
import type { RvcConverterOptions } from '@semblance/voice/rvc/rvc-converter';

/** Options of a converter without `run`; the thread has its own access to the models. */
export type RvcStreamOptions = Omit<RvcConverterOptions, 'run'>;

/**
 * Messages to a voice thread. A bare number, which costs a third of an object, is a stream whose chunk must be
 * converted.
 */
export type ToVoiceThread =
  | number
  | {
      readonly type: 'open';
      readonly stream: number;
      readonly options: RvcStreamOptions;
      /** Memory of the stream's SharedChunk. */
      readonly chunk: SharedArrayBuffer;
    }
  | { readonly type: 'close'; readonly stream: number }
  /** The result of a model run that the thread requested; undefined if it failed. */
  | {
      readonly type: 'ran';
      readonly run: number;
      readonly output: FloatTensor | undefined;
      readonly failure: string;
    };

/**
 * Answers of a voice thread: `warm` once; `opened` or `failed` to each `open`; to each number the number, when the
 * result is in its chunk, or `failed`. Before that it may request runs of models, which it shares with others.
 */
export type FromVoiceThread =
  | number
  | { readonly type: 'warm' }
  | { readonly type: 'opened'; readonly stream: number }
  | { readonly type: 'failed'; readonly stream: number; readonly message: string }
  | {
      readonly type: 'run';
      readonly stream: number;
      readonly run: number;
      readonly model: string;
      readonly feeds: FloatTensors;
    };
