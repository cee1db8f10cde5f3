/** How often it looks, and how much of a pause between two looks counts at most. */
const EVERY_MS = 250;
const MAX_MS = 2 * EVERY_MS;

/** Milliseconds that this process has lived through. */
export interface LivedClock {
  now(): number;
  /** To be asked as often as `everyMs` says: what passes without counts no further. */
  look(): void;
  readonly everyMs: number;
}

/**
 * A clock that hardly goes on while this process stands still: stopped, starved of CPU, or frozen with its machine. By it
 * nobody was silent for long only because what they sent could not be read. Never ahead of the clock it is made from.
 * @param clock monotonic milliseconds
 */
export function createLivedClock(clock: () => number = () => performance.now()): LivedClock {
  let lookedAt = clock();
  let stoodMs = 0;
  return {
    everyMs: EVERY_MS,
    now: () => Math.min(clock(), lookedAt + MAX_MS) - stoodMs,
    look() {
      const at = clock();
      stoodMs += Math.max(0, at - lookedAt - MAX_MS);
      lookedAt = at;
    },
  };
}
