import type { EngineInterruptedError, RenderErrorCode } from '@semblance/engine-api/engine';
import type { Gated } from '@semblance/vision/models/thread-gate';
import type { LiveVideoErrorCode } from './types.ts';

export interface StreamThreadOptions extends Gated {}

/** Holds what a thread is asked; one thing at a time, each answered once. */
export type Ask =
  /** Loads the networks and swaps pictures of this portrait until that is quick. */
  | { readonly type: 'warm-up'; readonly portrait: string }
  /** Begins a stream with the face of a picture, or with none. */
  | { readonly type: 'open'; readonly face: string | undefined }
  /** A picture of the stream, and when it arrived: milliseconds of a clock that only goes forward. */
  | { readonly type: 'picture'; readonly picture: Uint8Array; readonly ms: number }
  /** Ends the stream. */
  | { readonly type: 'close' };

export type ToThread = Ask & { readonly id: number };

/** Of a picture that nothing was changed in there is none. */
export interface Done {
  readonly picture: Uint8Array | undefined;
  readonly faces: number;
  readonly swapped: boolean;
}

export interface Failed {
  /** Undefined for a fault of the program. */
  readonly code: LiveVideoErrorCode | RenderErrorCode | EngineInterruptedError['code'] | undefined;
  readonly message: string;
  readonly stack: string | undefined;
}

export type FromThread =
  | { readonly type: 'done'; readonly id: number; readonly result: Done | undefined }
  | { readonly type: 'failed'; readonly id: number; readonly error: Failed };
