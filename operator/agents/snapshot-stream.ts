import type { ClientReadableStream } from '@grpc/grpc-js';
import { createBackoff } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';

/** Longest wait for a snapshot until the stream is reopened, in ms. */
const SNAPSHOT_TIMEOUT_MS = 5_000;

export interface SnapshotStreamOptions<Message extends { readonly snapshot: boolean }> {
  readonly open: () => ClientReadableStream<Message>;
  /** Content of the stream, such as `its attempts`, for the fault when no snapshot comes. */
  readonly of: string;
  /**
   * Receives the first message, which holds the whole state. `openedAt` is performance.now() before the stream was
   * opened.
   */
  readonly onSnapshot: (message: Message, openedAt: number) => void;
  readonly onChange: (message: Message) => void;
  /** Called when a stream has ended after its snapshot. */
  readonly onDisconnected: () => void;
  /** Called when a stream has ended or could not be opened; it will be reopened. */
  readonly onFault?: (reason: string) => void;
}

/** Stream from an agent: a snapshot first, then each change. */
export interface SnapshotStream {
  /** Number of the stream whose snapshot has arrived; undefined while none has. */
  readonly current: number | undefined;
  /** Why none has arrived. */
  readonly fault: string | undefined;
  /** Keeps the stream open until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

export function createSnapshotStream<Message extends { readonly snapshot: boolean }>(
  options: SnapshotStreamOptions<Message>,
): SnapshotStream {
  let current: number | undefined;
  let opened = 0;
  let fault: string | undefined;

  function once(signal: AbortSignal, onSnapshot: () => void): Promise<never> {
    const number = ++opened;
    const openedAt = performance.now();
    const running = options.open();
    return new Promise((_, reject) => {
      const abort = () => running.cancel();
      signal.addEventListener('abort', abort, { once: true });
      let reason: Error | undefined;
      const late = setTimeout(() => {
        reason = new Error(`it accepted the connection but sent no snapshot of ${options.of}`);
        running.cancel();
      }, SNAPSHOT_TIMEOUT_MS);
      running.on('data', (message: Message) => {
        if (message.snapshot) {
          clearTimeout(late);
          current = number;
          fault = undefined;
          onSnapshot();
          options.onSnapshot(message, openedAt);
        } else options.onChange(message);
      });
      const end = (error: Error) => {
        clearTimeout(late);
        signal.removeEventListener('abort', abort);
        const was = current === number;
        if (was) current = undefined;
        fault = describeError(reason ?? error);
        if (was) options.onDisconnected();
        reject(reason ?? error);
      };
      running.on('error', end);
      running.on('end', () => end(new Error('the agent ended the stream')));
    });
  }

  return {
    get current() {
      return current;
    },
    get fault() {
      return fault;
    },
    async run(signal) {
      const backoff = createBackoff({ baseMs: 50, maxMs: 2_000 });
      while (!signal.aborted) {
        try {
          await once(signal, backoff.reset);
        } catch (error) {
          if (signal.aborted) break;
          options.onFault?.(describeError(error));
          await backoff.wait(signal);
        }
      }
    },
  };
}
