import { setTimeout as delay } from 'node:timers/promises';

export interface Backoff {
  /**
   * Waits for the next delay, which is longer than the last. Returns early, without throwing, when the signal
   * aborts.
   */
  wait(signal: AbortSignal): Promise<void>;
  reset(): void;
}

/**
 * Creates a backoff with delays that double from `baseMs` to `maxMs`. Jitter reduces each by up to half, so that
 * many clients do not retry in step.
 */
export function createBackoff(options: { readonly baseMs: number; readonly maxMs: number }): Backoff {
  let failures = 0;
  return {
    async wait(signal) {
      const ms = jittered(backoffMs(failures++, options.baseMs, options.maxMs));
      await pause(ms, signal);
    },
    reset() {
      failures = 0;
    },
  };
}

/** Returns `baseMs` × 2^failures, at most `maxMs`. */
export function backoffMs(failures: number, baseMs: number, maxMs: number): number {
  return Math.min(maxMs, baseMs * 2 ** Math.min(failures, 30));
}

export function jittered(ms: number): number {
  return ms * (0.5 + Math.random() / 2);
}

/** Waits for `ms` milliseconds. Returns early, without throwing, when the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
