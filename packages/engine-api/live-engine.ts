import type { Capability } from './capabilities.ts';

/** States what every engine of live sessions keeps to. */

export type LiveCapability = Extract<Capability, 'voice' | 'full-live-swap'>;

/**
 * Holds what becomes of messages that come while one is being converted.
 * - every: each is converted, in order; whoever sends too fast is made to wait.
 * - newest: the newest is converted next, and those before it are thrown away and counted.
 */
export type Delivery = 'every' | 'newest';

export interface LiveEngine {
  readonly capability: LiveCapability;
  readonly delivery: Delivery;
  /** Sessions it holds at once on threads that are warm now. */
  readonly slots: number;
  /** Threads are being warmed up, or will be once others are: slots follow. */
  readonly warming: boolean;
  /**
   * Starts the threads; resolves once they are warm. Threads that die later are replaced and warmed without being
   * asked.
   */
  warmUp(signal: AbortSignal): Promise<void>;
  /** Tells whether a session with these settings can be opened. @throws LiveSettingsError */
  check(settings: Readonly<Record<string, string>>): void;
  /**
   * Makes a stream ready: from then on each message is converted as quickly as any later one. When it rejects, whatever
   * the stream had taken can be taken by the next one.
   * @throws the signal's reason
   */
  open(options: OpenLiveOptions): Promise<LiveStream>;
  /** Ends all threads; what is open fails. */
  close(): Promise<void>;
}

export interface OpenLiveOptions {
  /** As in ClaimSlotRequest. */
  readonly settings: Readonly<Record<string, string>>;
  /** Input role → local file, there until `open` has answered. */
  readonly inputs: Readonly<Record<string, string>>;
  /** Inputs that are not among them because they cannot be read: role → why, as a sentence. */
  readonly unusable?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Is told when the stream cannot go on, whether or not something is being converted. */
  readonly onFailed: (error: Error) => void;
}

/** One session's media. */
export interface LiveStream {
  /** The first text frame of the client's socket: JSON. */
  readonly firstFrame: string;
  readonly format: LiveFormat;
  /** Largest message taken. */
  readonly maxMessageBytes: number;
  /**
   * Converts one message. One call at a time. The memory of `message` is given away.
   * @returns undefined when nothing is to be sent for it
   * @throws BadMessageError for a message that cannot be taken, after which the stream goes on; any other error ends it
   */
  transform(message: Uint8Array): Promise<Uint8Array | undefined>;
  /** Gives back all that the stream has. Idempotent. */
  close(): Promise<void>;
}

export type LiveFormat =
  | { readonly kind: 'voice'; readonly sampleRate: number; readonly chunkFrames: number }
  | {
      readonly kind: 'picture';
      readonly width: number;
      readonly height: number;
      readonly fps: number;
      readonly codec: string;
      /** Most pixels of a picture: on its longer side, and in all. */
      readonly maxSide: number;
      readonly maxPixels: number;
    };

/** Settings with which no session can be opened. */
export class LiveSettingsError extends Error {
  override readonly name = 'LiveSettingsError';
  readonly code = 'invalid_settings';
  readonly retryable = false;
}

/** A message of media that is none. */
export class BadMessageError extends Error {
  override readonly name = 'BadMessageError';
  readonly code = 'bad_message';
  readonly retryable = false;
}

/** A thread that carries streams ended, and they with it; or none is there to carry one. */
export class LiveThreadError extends Error {
  override readonly name = 'LiveThreadError';
  readonly code = 'thread_ended';
  readonly retryable = true;
}
