import { setTimeout as delay } from 'node:timers/promises';

/**
 * Looks again and again until `look` neither throws nor returns undefined, and returns what it returned. When time is
 * up, throws with what was waited for and why the last look failed.
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
      // What an earlier look failed with is no longer why.
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
