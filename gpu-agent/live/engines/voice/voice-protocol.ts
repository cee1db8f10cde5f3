import type { FloatTensor, FloatTensors } from '@semblance/engine-onnx/sessions/protocol';
import type { RvcConverterOptions } from '@semblance/voice/rvc/rvc-converter';

/** Options of a converter without `run`, because the thread has its own access to the models. */
export type RvcStreamOptions = Omit<RvcConverterOptions, 'run'>;

/**
 * Messages to a voice thread. A bare number names a stream whose chunk must be converted; it costs a third of an
 * object.
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
  /** Result of a model run that the thread requested; undefined if the run failed. */
  | {
      readonly type: 'ran';
      readonly run: number;
      readonly output: FloatTensor | undefined;
      readonly failure: string;
    };

/**
 * Answers of a voice thread: `warm` once, and `opened` or `failed` to each `open`. The answer to a number is the
 * same number when the result is in its chunk, or `failed`. Before that the thread may request runs of models,
 * which it shares with other threads.
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
