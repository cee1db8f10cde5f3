import type { EngineInterruptedError, RenderErrorCode } from '@semblance/engine-api/engine';
import type { Gated } from '@semblance/vision/models/thread-gate';
import type { BuiltinSettings } from '../settings.ts';
import type { LiveVideoErrorCode } from './types.ts';

export interface StreamThreadOptions extends Gated {
  readonly settings?: BuiltinSettings | undefined;
  /** What the entry file of the thread needs beside. */
  readonly data?: unknown;
}

/** Requests to a thread: one at a time, each answered once. */
export type Ask =
  /** Loads the networks and swaps pictures of this portrait until that is fast. */
  | { readonly type: 'warm-up'; readonly portrait: string }
  /** Begins a stream with the face of a picture, or without a face. */
  | { readonly type: 'open'; readonly face: string | undefined }
  /** Changes the face of the stream; when that fails, it keeps the one that it has. */
  | { readonly type: 'change'; readonly face: string | undefined }
  /** A picture of the stream and its arrival time, in ms of a monotonic clock. */
  | { readonly type: 'picture'; readonly picture: Uint8Array; readonly ms: number }
  /** Ends the stream. */
  | { readonly type: 'close' };

export type ToThread = Ask & { readonly id: number };

/** Undefined for a picture in which nothing changed. */
export interface Done {
  readonly picture: Uint8Array | undefined;
  readonly faces: number;
  readonly swapped: boolean;
}

export interface Failed {
  /** Undefined for a bug. */
  readonly code: LiveVideoErrorCode | RenderErrorCode | EngineInterruptedError['code'] | undefined;
  readonly message: string;
  readonly stack: string | undefined;
}

export type FromThread =
  | { readonly type: 'done'; readonly id: number; readonly result: Done | undefined }
  | { readonly type: 'failed'; readonly id: number; readonly error: Failed };
