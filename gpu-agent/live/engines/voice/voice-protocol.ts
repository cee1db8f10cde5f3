import type { FloatTensor, FloatTensors } from '../../../engines/onnx/sessions/protocol.ts';
import type { ConverterOptions } from '../../voice/open-converter.ts';

/** What a voice thread is told. Samples are 16 bits each, in the order of bytes of this machine. */
export type ToVoiceThread =
  | {
      readonly type: 'open';
      readonly stream: number;
      readonly options: ConverterOptions;
    }
  | { readonly type: 'convert'; readonly stream: number; readonly samples: ArrayBuffer }
  | { readonly type: 'close'; readonly stream: number }
  /** What a model made of what the thread asked it for; undefined: it failed. */
  | {
      readonly type: 'ran';
      readonly run: number;
      readonly output: FloatTensor | undefined;
      readonly failure: string;
    };

/**
 * What it answers: `warm` once, then one `opened`, `converted` or `failed` to each `open` and `convert`. Before that it may
 * ask for runs of models, which are not the thread's: others use them too.
 */
export type FromVoiceThread =
  | { readonly type: 'warm' }
  | { readonly type: 'opened'; readonly stream: number }
  | { readonly type: 'converted'; readonly stream: number; readonly samples: ArrayBuffer }
  | { readonly type: 'failed'; readonly stream: number; readonly message: string }
  | {
      readonly type: 'run';
      readonly stream: number;
      readonly run: number;
      readonly model: string;
      readonly feeds: FloatTensors;
    };
