/** Interface of a Live Swap Pro stream. */

/** Pictures recommended to a caller. Others within {@link PICTURE_LIMITS} are accepted too. */
export const RECOMMENDED = { width: 640, height: 480, fps: 25, codec: 'jpeg' } as const;

/** Largest picture. The size may change from one picture to the next. */
export const PICTURE_LIMITS = {
  /** Longer side, in pixels. */
  side: 1280,
  /** Pixels: 1280 × 720, or 720 × 1280. */
  pixels: 1280 * 720,
  bytes: 2 * 1024 * 1024,
} as const;

/** The face that is put on, after the prompt was read and an uploaded picture was fetched. */
export type LiveLook =
  /** A character, by its id. */
  | { readonly kind: 'character'; readonly name: string }
  /** A picture in a local file, which is read only while the stream is opened. */
  | { readonly kind: 'face'; readonly path: string }
  /** The caller's own face: pictures pass unchanged. */
  | { readonly kind: 'own' };

export interface LiveVideo {
  /** Number of streams that can be open at once; each has a thread of its own. */
  readonly slots: number;
  /** Loads the networks in every thread and runs them until they are fast. */
  warmUp(signal?: AbortSignal): Promise<void>;
  /**
   * Takes a thread and prepares the look in it.
   * @throws LiveVideoError `unknown_character`, `no_slot`; RenderError `face_not_detected`, `unsupported_format`,
   *   `input_too_large` for the picture of a face; EngineInterruptedError when the thread died; the signal's reason
   */
  open(options: OpenOptions): Promise<LiveVideoStream>;
  /** Ends all threads. Running calls fail with an EngineInterruptedError. */
  close(): Promise<void>;
}

export interface OpenOptions {
  readonly look: LiveLook;
  /**
   * Aborted before the stream is open: `open` rejects when its slot is free again. Aborted afterwards: the stream
   * is closed.
   */
  readonly signal?: AbortSignal;
}

/**
 * One caller's pictures in their order of arrival. The stream has no queue: its owner keeps the newest picture and
 * drops the others while a transform runs.
 */
export interface LiveVideoStream {
  /**
   * Puts the face on a picture: JPEG in, JPEG out. One call at a time.
   * @throws LiveVideoError `bad_frame` for a picture that is refused, after which the stream goes on; `busy` while
   * the
   *   call before runs, `closed` after close; EngineInterruptedError when the thread died and the stream is over
   */
  transform(picture: Uint8Array): Promise<TransformedPicture>;
  /**
   * Changes the face for the pictures that come from now on; they wait until it is prepared. One call at a time.
   * @throws as `LiveVideo.open`, after which the stream goes on with the face that it had, unless its thread died
   */
  change(look: LiveLook): Promise<void>;
  /** Returns the thread when its present work is done. Idempotent. */
  close(): Promise<void>;
}

export interface TransformedPicture {
  /** JPEG, upright, and as large as the input (rotated by its orientation). Without a swap: the input bytes. */
  readonly picture: Uint8Array;
  /** Number of tracked faces. */
  readonly faces: number;
  /** Whether a face was put on. */
  readonly swapped: boolean;
}

export type LiveVideoErrorCode = 'bad_frame' | 'busy' | 'closed' | 'no_slot' | 'unknown_character';

/** An error whose `message` is for the caller. */
export class LiveVideoError extends Error {
  override readonly name = 'LiveVideoError';
  readonly code: LiveVideoErrorCode;
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;

  constructor(code: LiveVideoErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.retryable = code === 'busy' || code === 'no_slot';
  }
}
