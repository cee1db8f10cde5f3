import type { Pixels } from './picture-codec.ts';
import type { Failed } from './protocol.ts';

/** What goes to a thread that decodes pictures, one at a time, and back. */
export type ToReader =
  | { readonly type: 'picture'; readonly picture: Uint8Array<ArrayBuffer> }
  | { readonly type: 'close' };

export type FromReader =
  | { readonly type: 'pixels'; readonly pixels: Pixels }
  | { readonly type: 'failed'; readonly error: Failed }
  | { readonly type: 'closed' };
