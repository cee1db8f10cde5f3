import { BadMessageError, type Delivery } from '@semblance/engine-api/live-engine';

/** Number of waiting messages at which the sender has to wait (`every`); the next constant is their bytes. */
const MAX_WAITING = 8;
const MAX_WAITING_BYTES = 256 * 1024;

export interface PumpOptions {
  readonly delivery: Delivery;
  /** Converts a message, like LiveStream.transform. */
  readonly transform: (message: Uint8Array) => Promise<Uint8Array | undefined>;
  /** Resolves when the transport has taken the message and has room for the next. */
  readonly send: (sequence: bigint, data: Uint8Array) => Promise<void>;
  /** Reports that no answer comes for a refused message. Resolves like `send`. */
  readonly refuse: (sequence: bigint) => Promise<void>;
  readonly maxMessageBytes: number;
  /** Stops the reading of messages; `resume` starts it again. */
  readonly pause: () => void;
  readonly resume: () => void;
  readonly onReceived: () => void;
  readonly onDropped: () => void;
  /** @param delayMs time from the arrival of the message until the transport took its conversion */
  readonly onConverted: (delayMs: number) => void;
  /** Reports that the stream cannot go on. Called at most once, as the last call. */
  readonly onFailed: (error: unknown) => void;
}

export interface Pump {
  push(sequence: bigint, data: Uint8Array): void;
  /** Stops the pump: it sends and reports nothing more. */
  stop(): void;
}

interface Message {
  readonly sequence: bigint;
  readonly data: Uint8Array;
  readonly at: number;
}

/**
 * Creates the pump that passes the messages of one session through its stream, one at a time. The waiting messages
 * bound the memory. With `every` there are few, because the sender is stopped. With `newest` there is one, because
 * older ones are dropped. The next message is taken only when the transport has room. So with `newest` a slow
 * reader gets fewer pictures, but not old ones.
 */
export function createPump(options: PumpOptions): Pump {
  const { delivery } = options;
  const waiting: Message[] = [];
  let waitingBytes = 0;
  let running = false;
  let paused = false;
  let stopped = false;

  const isFull = (share: number) =>
    waiting.length >= MAX_WAITING * share || waitingBytes >= MAX_WAITING_BYTES * share;

  function take(): Message | undefined {
    const message = waiting.shift();
    if (message) waitingBytes -= message.data.length;
    if (paused && !isFull(0.5)) {
      paused = false;
      options.resume();
    }
    return message;
  }

  async function convert({ sequence, data, at }: Message): Promise<void> {
    let converted: Uint8Array | undefined;
    try {
      converted = await options.transform(data);
    } catch (error) {
      if (!(error instanceof BadMessageError)) throw error;
      if (stopped) return;
      options.onDropped();
      return options.refuse(sequence);
    }
    if (stopped || converted === undefined) return;
    await options.send(sequence, converted);
    if (!stopped) options.onConverted(performance.now() - at);
  }

  async function run(): Promise<void> {
    running = true;
    try {
      for (let message = take(); message && !stopped; message = take()) await convert(message);
    } catch (error) {
      if (stopped) return;
      stopped = true;
      options.onFailed(error);
    } finally {
      running = false;
    }
  }

  return {
    push(sequence, data) {
      if (stopped) return;
      options.onReceived();
      // The gateway lets no such message through. A refusal from here would come before the answers to messages
      // that wait.
      if (data.length === 0 || data.length > options.maxMessageBytes) {
        options.onDropped();
        return;
      }
      if (delivery === 'newest' && waiting.length > 0) {
        waiting.length = 0;
        waitingBytes = 0;
        options.onDropped();
      }
      waiting.push({ sequence, data, at: performance.now() });
      waitingBytes += data.length;
      if (delivery === 'every' && !paused && isFull(1)) {
        paused = true;
        options.pause();
      }
      if (!running) void run();
    },
    stop() {
      stopped = true;
      waiting.length = 0;
      waitingBytes = 0;
    },
  };
}
