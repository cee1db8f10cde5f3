import { once } from 'node:events';

/**
 * Returns the outcome of the work, or rejects with the signal's reason if the signal aborts first. The work itself
 * continues, and its later outcome is discarded.
 * @throws the signal's reason, or what the work throws
 */
export async function raceAbort<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    // If both have settled, the signal wins because it stands first.
    return await Promise.race([aborted.promise, work]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Resolves when the signal aborts, or at once if it has aborted already. */
export async function afterAbort(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

/**
 * Creates a signal that aborts when `signal` does, or with `reason` as its error after `ms` milliseconds. It holds
 * a timer and a listener until `release` is called.
 */
export function deadline(
  signal: AbortSignal,
  ms: number,
  reason: string,
): { signal: AbortSignal; release(): void } {
  const own = new AbortController();
  const follow = () => own.abort(signal.reason);
  if (signal.aborted) follow();
  signal.addEventListener('abort', follow, { once: true });
  const timer = setTimeout(() => own.abort(new Error(reason)), ms);
  return {
    signal: own.signal,
    release() {
      clearTimeout(timer);
      signal.removeEventListener('abort', follow);
    },
  };
}
