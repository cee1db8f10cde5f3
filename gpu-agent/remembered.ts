/** Newest entries of a growing set, so that it does not grow without bound. */
export interface Remembered<T> {
  get(key: string): T | undefined;
  has(key: string): boolean;
  /** Sets the value and makes the entry the newest. @param at ms of any clock that never goes back */
  set(key: string, value: T, at: number): void;
}

/**
 * Remembers the newest `least` entries, and every entry for `forMs` milliseconds. Ten times `least` is a hard limit,
 * whatever the time.
 */
export function createRemembered<T>(least: number, forMs: number): Remembered<T> {
  /** Oldest first. */
  const entries = new Map<string, { readonly value: T; readonly at: number }>();
  return {
    get: (key) => entries.get(key)?.value,
    has: (key) => entries.has(key),
    set(key, value, now) {
      entries.delete(key);
      entries.set(key, { value, at: now });
      for (const [oldest, { at }] of entries) {
        const crowded = entries.size > least * 10;
        if (entries.size <= least || (now - at < forMs && !crowded)) break;
        entries.delete(oldest);
      }
    },
  };
}
