import type { FloatTensor, FloatTensors } from '@semblance/engine-onnx/sessions/protocol';
import type { RvcConverterOptions } from '@semblance/voice/rvc/rvc-converter';

/** Of a converter; the thread has its own way to the models. */
export type RvcStreamOptions = Omit<RvcConverterOptions, 'run'>;

/**
 * Holds what a voice thread is told. A number alone, which costs a third of an object, is that of a stream: what lies
 * in its chunk is to be converted.
 */
export type ToVoiceThread =
  | number
  | {
      readonly type: 'open';
      readonly stream: number;
      readonly options: RvcStreamOptions;
      /** Of the stream's SharedChunk. */
      readonly chunk: SharedArrayBuffer;
    }
  | { readonly type: 'close'; readonly stream: number }
  /** States what a model made of what the thread asked it for; undefined: it failed. */
  | {
      readonly type: 'ran';
      readonly run: number;
      readonly output: FloatTensor | undefined;
      readonly failure: string;
    };

/**
 * Holds what it answers: `warm` once, then `opened` or `failed` to each `open`, and to each number the number, when
 * what came of the chunk lies in its place, or `failed`. Before that it may ask for runs of models, which are not the
 * thread's: others use them too.
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
