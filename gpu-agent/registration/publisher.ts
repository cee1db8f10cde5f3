import { backoffMs, jittered } from '@semblance/common/async/backoff';
import { createChanges } from '@semblance/common/async/changes';
import { describeError } from '@semblance/common/errors';

export interface PublisherOptions {
  /** Publishes the present statement. */
  readonly publish: (signal: AbortSignal) => Promise<void>;
  /** Called with the reason of each failed try. */
  readonly onFault: (reason: string) => void;
}

/** Publishes a statement after each change, and retries faults with growing pauses. */
export interface Publisher {
  /** Reports that the statement has changed. */
  changed(): void;
  /** Publishes until the last change is published. Resolves early when the signal aborts. */
  once(signal: AbortSignal): Promise<void>;
  /** Publishes changes until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
  /** Publishes now, once. @throws the error of `publish` */
  now(signal: AbortSignal): Promise<void>;
  /** Resolves when the last change is published; rejects with the signal's reason. */
  settled(signal: AbortSignal): Promise<void>;
  /** Whether anything was published. */
  readonly published: boolean;
  /** Whether the last change is published. */
  readonly current: boolean;
}

export function createPublisher({ publish, onFault }: PublisherOptions): Publisher {
  /** Number of changes. `publishAll` publishes until `published` has reached it. */
  let wanted = 1;
  let published = 0;
  let wake = () => {};
  const changes = createChanges();

  async function now(signal: AbortSignal): Promise<void> {
    const saying = wanted;
    await publish(signal);
    published = saying;
    changes.changed();
  }

  async function publishAll(signal: AbortSignal, once: boolean): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      if (published === wanted) {
        if (once) return;
        await sleep(signal);
        continue;
      }
      try {
        await now(signal);
        failures = 0;
      } catch (error) {
        if (signal.aborted) break;
        failures++;
        onFault(describeError(error));
        await sleep(signal, jittered(backoffMs(failures, 200, 5_000)));
      }
    }
  }

  /** Waits until woken or aborted, or until `ms` have passed. */
  function sleep(signal: AbortSignal, ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = ms === undefined ? undefined : setTimeout(end, ms);
      // A change does not shorten the pause after a fault.
      wake = ms === undefined ? end : () => {};
      signal.addEventListener('abort', end, { once: true });
      if (signal.aborted) end();
    });
  }

  return {
    changed() {
      wanted++;
      wake();
    },
    once: (signal) => publishAll(signal, true),
    run: (signal) => publishAll(signal, false),
    now,
    async settled(signal) {
      await changes.until(() => published === wanted, signal);
      if (published !== wanted) throw signal.reason;
    },
    get published() {
      return published > 0;
    },
    get current() {
      return published === wanted;
    },
  };
}
