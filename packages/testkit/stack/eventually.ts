import { setTimeout as delay } from 'node:timers/promises';

/**
 * Polls until `look` neither throws nor returns undefined, and returns its value. After the time limit it throws
 * with the awaited condition and the last failure.
 */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | undefined> | T | undefined,
  { withinMs = 60_000, everyMs = 100 }: { withinMs?: number; everyMs?: number } = {},
): Promise<T> {
  const deadline = Date.now() + withinMs;
  let last: unknown;
  for (;;) {
    try {
      const found = await look();
      if (found !== undefined) return found;
      // An earlier failure is no longer the reason.
      last = undefined;
    } catch (error) {
      last = error;
    }
    if (Date.now() >= deadline) {
      const why = last instanceof Error ? ` (${last.message})` : '';
      throw new Error(`waited ${withinMs} ms in vain for ${what}${why}`, { cause: last });
    }
    await delay(everyMs);
  }
}
