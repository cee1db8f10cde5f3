import type { Capability } from './capabilities.ts';
import type { RenderErrorCode } from './engine.ts';

/** The contract of every engine of live sessions. */

export type LiveCapability = Extract<Capability, 'voice' | 'full-live-swap'>;

/**
 * How messages are handled that arrive while one is being converted.
 * - every: each is converted, in order; a sender that is too fast has to wait.
 * - newest: the newest is converted next; those before it are dropped and counted.
 */
export type Delivery = 'every' | 'newest';

export interface LiveEngine {
  readonly capability: LiveCapability;
  readonly delivery: Delivery;
  /** Number of sessions that it holds at once on threads that are warm now. */
  readonly slots: number;
  /** Threads are warming up, or will when others are warm, so more slots follow. */
  readonly warming: boolean;
  /**
   * Starts the threads; resolves when they are warm. Threads that die later are replaced and warmed automatically.
   */
  warmUp(signal: AbortSignal): Promise<void>;
  /** Name and version of the program that converts, where it is not the agent itself. */
  readonly engine?: string | undefined;
  /** Checks whether a session with these settings can be opened. @throws LiveSettingsError */
  check(settings: Readonly<Record<string, string>>): void;
  /**
   * Opens a stream whose first message is converted as fast as any later one. When it rejects, everything that the
   * stream had taken is free again.
   * @throws the signal's reason
   */
  open(options: OpenLiveOptions): Promise<LiveMedia>;
  /** Ends all threads; open streams fail. */
  close(): Promise<void>;
}

export interface OpenLiveOptions {
  /** As in ClaimSlotRequest. */
  readonly settings: Readonly<Record<string, string>>;
  /** Input role → local file, which exists until `open` has answered. */
  readonly inputs: Readonly<Record<string, string>>;
  /** Inputs that cannot be read: role → reason, as a sentence. */
  readonly unusable?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Called when the stream cannot go on, whether or not a message is being converted. */
  readonly onFailed: (error: Error) => void;
}

/** All settings and inputs of a session from now on, as in {@link OpenLiveOptions}. */
export type LiveChange = Pick<OpenLiveOptions, 'settings' | 'inputs' | 'unusable'>;

export interface LiveChanged {
  /** For the client: how the engine understood what was asked, if that needs a word. */
  readonly note?: string | undefined;
}

/** The media of one session: converted message by message, or as a flow. */
export type LiveMedia = LiveStream | LiveFlow;

interface Media {
  /** The first text frame of the client's socket: JSON. */
  readonly firstFrame: string;
  readonly format: LiveFormat;
  /** Largest accepted message. */
  readonly maxMessageBytes: number;
  /**
   * Changes the prompt, face or voice for the messages that come from now on. One call at a time. Undefined: the engine
   * cannot. Until it resolves, messages may be answered with the former ones, or not at all.
   * @throws ChangeRefusedError when nothing has changed and the media go on; any other error ends them
   */
  readonly change?: ((to: LiveChange) => Promise<LiveChanged>) | undefined;
  /** Releases everything that it holds. Idempotent. */
  close(): Promise<void>;
}

/** Media of which each message has its answer before the next one is converted. */
export interface LiveStream extends Media {
  /**
   * Converts one message. One call at a time. Takes ownership of the memory of `message`.
   * @returns undefined when nothing is to be sent for it
   * @throws BadMessageError for a message that is refused, after which the stream goes on; any other error ends it
   */
  transform(message: Uint8Array): Promise<Uint8Array | undefined>;
}

/** Media of which any number of messages are answered by any number of messages, at any time. */
export interface LiveFlow extends Media {
  /** Must be called once, before the first message. */
  listen(listener: FlowListener): void;
  /** Whether the next message may be given. */
  readonly hasRoom: boolean;
  /**
   * Takes a message, and ownership of its memory.
   * @param sequence its number, which only grows
   */
  push(sequence: bigint, message: Uint8Array): void;
  /** Answers nothing until `resume`, as far as nothing is lost by that. */
  pause(): void;
  resume(): void;
}

export interface FlowListener {
  /**
   * Answers.
   * @param sequence the last message that it was made of; it never falls
   */
  converted(sequence: bigint, message: Uint8Array): void;
  /** No answer comes for this message, because it is no valid media. The flow goes on. */
  unreadable(sequence: bigint): void;
  /** There is room for a message. */
  room(): void;
}

export type LiveFormat =
  | { readonly kind: 'voice'; readonly sampleRate: number; readonly chunkFrames: number }
  | {
      readonly kind: 'picture';
      readonly width: number;
      readonly height: number;
      readonly fps: number;
      readonly codec: string;
      /** Largest picture: pixels on its longer side, and in all. */
      readonly maxSide: number;
      readonly maxPixels: number;
    };

/** Settings with which no session can be opened. */
export class LiveSettingsError extends Error {
  override readonly name = 'LiveSettingsError';
  readonly code = 'invalid_settings';
  readonly retryable = false;
}

/** What a session was to be changed to cannot be used, and everything stays as it was. `message` is for the client. */
export class ChangeRefusedError extends Error {
  override readonly name = 'ChangeRefusedError';
  readonly code: RenderErrorCode | 'invalid_input' | 'capability_unavailable' | 'internal_error';
  readonly retryable = false;

  constructor(code: ChangeRefusedError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** A message that is no valid media. */
export class BadMessageError extends Error {
  override readonly name = 'BadMessageError';
  readonly code = 'bad_message';
  readonly retryable = false;
}

/** A thread with streams ended, and its streams with it; or there is no thread for a stream. */
export class LiveThreadError extends Error {
  override readonly name = 'LiveThreadError';
  readonly code = 'thread_ended';
  readonly retryable = true;
}
