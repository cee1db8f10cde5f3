import { BadMessageError, type Delivery, type LiveStream } from '@semblance/engine-api/live-engine';

/** Number of waiting messages at which the sender has to wait (`every`); the next constant is their bytes. */
const MAX_WAITING = 8;
const MAX_WAITING_BYTES = 256 * 1024;

export interface PumpOptions {
  readonly delivery: Delivery;
  /** Called with each message before it is converted. */
  readonly onConverting?: (message: Uint8Array) => void;
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
  /**
   * @param delayMs time from the arrival of the message until the transport took its conversion; undefined when it
   * had an answer before
   */
  readonly onConverted: (delayMs: number | undefined) => void;
  /** Reports that the stream cannot go on. Called at most once, as the last call. */
  readonly onFailed: (error: unknown) => void;
}

export interface Pump {
  push(sequence: bigint, data: Uint8Array): void;
  /** Stops the pump: it sends and reports nothing more. */
  stop(): void;
}

export interface Message {
  readonly sequence: bigint;
  readonly data: Uint8Array;
  readonly at: number;
}

/** The messages that wait to be converted. They bound the memory of a session. */
export interface Queue {
  /** @returns false when the message was dropped */
  push(sequence: bigint, data: Uint8Array): boolean;
  /** Returns the next message. */
  take(): Message | undefined;
  clear(): void;
}

/**
 * With `every` few messages wait, because the sender is stopped. With `newest` one waits, because older ones are
 * dropped.
 */
export function createQueue(options: PumpOptions): Queue {
  const { delivery } = options;
  const waiting: Message[] = [];
  let waitingBytes = 0;
  let paused = false;

  const isFull = (share: number) =>
    waiting.length >= MAX_WAITING * share || waitingBytes >= MAX_WAITING_BYTES * share;
  const clear = () => {
    waiting.length = 0;
    waitingBytes = 0;
  };

  return {
    push(sequence, data) {
      options.onReceived();
      // The gateway lets no such message through. A refusal from here would come before the answers to messages
      // that wait.
      if (data.length === 0 || data.length > options.maxMessageBytes) {
        options.onDropped();
        return false;
      }
      if (delivery === 'newest' && waiting.length > 0) {
        clear();
        options.onDropped();
      }
      waiting.push({ sequence, data, at: performance.now() });
      waitingBytes += data.length;
      if (delivery === 'every' && !paused && isFull(1)) {
        paused = true;
        options.pause();
      }
      return true;
    },
    take() {
      const message = waiting.shift();
      if (message) waitingBytes -= message.data.length;
      if (paused && !isFull(0.5)) {
        paused = false;
        options.resume();
      }
      return message;
    },
    clear,
  };
}

/**
 * Creates the pump that passes the messages of one session through its stream, one at a time. The next message is
 * taken only when the transport has room. So with `newest` a slow reader gets fewer pictures, but not old ones.
 */
export function createPump(stream: Pick<LiveStream, 'transform'>, options: PumpOptions): Pump {
  const queue = createQueue(options);
  let running = false;
  let stopped = false;

  async function convert({ sequence, data, at }: Message): Promise<void> {
    let converted: Uint8Array | undefined;
    try {
      options.onConverting?.(data);
      converted = await stream.transform(data);
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
      for (let message = queue.take(); message && !stopped; message = queue.take()) await convert(message);
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
      if (stopped || !queue.push(sequence, data)) return;
      if (!running) void run();
    },
    stop() {
      stopped = true;
      queue.clear();
    },
  };
}
