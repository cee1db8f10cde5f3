import { once } from 'node:events';

/**
 * The outcome of the work, or the signal's reason when that aborts first. The work itself goes on; its outcome is then
 * thrown away.
 * @throws the signal's reason, or what the work throws
 */
export async function raceAbort<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  try {
    // The signal first, should both have settled.
    return await Promise.race([aborted.promise, work]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Resolves when the signal aborts, at once when it already has. */
export async function afterAbort(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}

/**
 * A signal that aborts with another one, or with `reason` after `ms`. Call `release` when nobody needs it any more:
 * until then it holds a timer and a listener.
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
