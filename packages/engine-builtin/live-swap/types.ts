/** States what a Live Swap Pro stream is, for whoever brings it pictures. */

/** The pictures recommended to a caller. Others are taken as well, within {@link PICTURE_LIMITS}. */
export const RECOMMENDED = { width: 640, height: 480, fps: 25, codec: 'jpeg' } as const;

/** States what a picture may be at most. Its size may change from one to the next. */
export const PICTURE_LIMITS = {
  /** Longer side, pixels. */
  side: 1280,
  /** Pixels: 1280 × 720, or 720 × 1280. */
  pixels: 1280 * 720,
  bytes: 2 * 1024 * 1024,
} as const;

/** Whose face is put on, once the prompt has been read and an uploaded picture been fetched. */
export type LiveLook =
  /** A character, by its id. */
  | { readonly kind: 'character'; readonly name: string }
  /** A picture in a local file; it is read while the stream is opened and not afterwards. */
  | { readonly kind: 'face'; readonly path: string }
  /** The caller's own face: pictures go through. */
  | { readonly kind: 'own' };

export interface LiveVideo {
  /** Streams that can be open at once; each has a thread of its own. */
  readonly slots: number;
  /** Loads the networks in every thread and runs them until they are quick. */
  warmUp(signal?: AbortSignal): Promise<void>;
  /**
   * Takes a thread and makes the look ready in it.
   * @throws LiveVideoError `unknown_character`, `no_slot`; RenderError `face_not_detected`, `unsupported_format`,
   *   `input_too_large` for the picture of a face; EngineInterruptedError where the thread died; the signal's reason
   */
  open(options: OpenOptions): Promise<LiveVideoStream>;
  /** Ends all threads; what is under way fails with an EngineInterruptedError. */
  close(): Promise<void>;
}

export interface OpenOptions {
  readonly look: LiveLook;
  /**
   * Aborted before the stream is open: `open` rejects once its slot is free again. Aborted afterwards: the stream is
   * closed.
   */
  readonly signal?: AbortSignal;
}

/**
 * One caller's pictures in the order in which they came. Its owner keeps the newest picture and drops the others while
 * a transform is under way; the stream holds no queue.
 */
export interface LiveVideoStream {
  /**
   * Puts the face on a picture: JPEG in, JPEG out. One call at a time.
   * @throws LiveVideoError `bad_frame` for a picture that is not taken, after which the stream goes on; `busy` while
   *   the call before is under way, `closed` after close; EngineInterruptedError where the thread died: the stream is
   *   over
   */
  transform(picture: Uint8Array): Promise<TransformedPicture>;
  /** Gives the thread back, once it has done what it is at. Idempotent. */
  close(): Promise<void>;
}

export interface TransformedPicture {
  /**
   * JPEG, upright, and as large as the one that came (turned by its orientation). Without a swap: the bytes that
   * came.
   */
  readonly picture: Uint8Array;
  /** Faces that are followed. */
  readonly faces: number;
  /** Tells whether a face was put on. */
  readonly swapped: boolean;
}

export type LiveVideoErrorCode = 'bad_frame' | 'busy' | 'closed' | 'no_slot' | 'unknown_character';

/** Says what cannot be done; `message` is for the caller. */
export class LiveVideoError extends Error {
  override readonly name = 'LiveVideoError';
  readonly code: LiveVideoErrorCode;
  /** Tells whether the same call may succeed later. */
  readonly retryable: boolean;

  constructor(code: LiveVideoErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.retryable = code === 'busy' || code === 'no_slot';
  }
}
