import type { VoiceConverterOptions } from '../../voice/converter.ts';

/** What a voice thread is told. Samples are 16 bits each, in the order of bytes of this machine. */
export type ToVoiceThread =
  | {
      readonly type: 'open';
      readonly stream: number;
      readonly options: VoiceConverterOptions;
    }
  | { readonly type: 'convert'; readonly stream: number; readonly samples: ArrayBuffer }
  | { readonly type: 'close'; readonly stream: number };

/** What it answers: `warm` once, then one `opened`, `converted` or `failed` to each `open` and `convert`. */
export type FromVoiceThread =
  | { readonly type: 'warm' }
  | { readonly type: 'opened'; readonly stream: number }
  | { readonly type: 'converted'; readonly stream: number; readonly samples: ArrayBuffer }
  | { readonly type: 'failed'; readonly stream: number; readonly message: string };
