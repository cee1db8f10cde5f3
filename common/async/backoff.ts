import { setTimeout as delay } from 'node:timers/promises';

export interface Backoff {
  /** Waits for the next, longer while; returns early, without throwing, when the signal aborts. */
  wait(signal: AbortSignal): Promise<void>;
  reset(): void;
}

/** Doubling delays from `baseMs` to `maxMs`, each between half and all of its nominal length so that many do not align. */
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

/** `baseMs` × 2^failures, at most `maxMs`. */
export function backoffMs(failures: number, baseMs: number, maxMs: number): number {
  return Math.min(maxMs, baseMs * 2 ** Math.min(failures, 30));
}

export function jittered(ms: number): number {
  return ms * (0.5 + Math.random() / 2);
}

/** Waits; returns early, without throwing, when the signal aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
