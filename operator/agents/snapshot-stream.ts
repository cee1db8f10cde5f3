import type { ClientReadableStream } from '@grpc/grpc-js';
import { createBackoff } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';

/** No snapshot within this time of opening the stream: open it again. */
const SNAPSHOT_TIMEOUT_MS = 5_000;

export interface SnapshotStreamOptions<Message extends { readonly snapshot: boolean }> {
  readonly open: () => ClientReadableStream<Message>;
  /** States what the stream tells of, for the fault when it tells nothing: `its attempts`. */
  readonly of: string;
  /** The first message of a stream: everything there is. `openedAt` is performance.now() before it was asked for. */
  readonly onSnapshot: (message: Message, openedAt: number) => void;
  readonly onChange: (message: Message) => void;
  /** A stream that had told its snapshot ended. */
  readonly onDisconnected: () => void;
  /** A stream ended or could not be opened, and will be again. */
  readonly onFault?: (reason: string) => void;
}

/** A stream of an agent that tells everything, then each change. */
export interface SnapshotStream {
  /** Number of the stream whose snapshot has arrived; undefined while none has. */
  readonly current: number | undefined;
  /** Why there is none. */
  readonly fault: string | undefined;
  /** Keeps it open until aborted. */
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
