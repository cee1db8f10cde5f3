/** Time between two readings, in ms. MAX_MS is the longest time that one pause between readings counts for. */
const EVERY_MS = 250;
const MAX_MS = 2 * EVERY_MS;

/** Milliseconds during which this process ran. */
export interface LivedClock {
  now(): number;
  /** Reads the clock. Call it every `everyMs`: time without a reading does not count. */
  look(): void;
  readonly everyMs: number;
}

/**
 * A monotonic clock that excludes the time during which this process was paused: stopped, starved of CPU, or frozen with its
 * machine. By this clock no peer is silent only because its messages could not be read. It is never ahead of
 * `performance.now`.
 */
export function createLivedClock(): LivedClock {
  let lookedAt = performance.now();
  let stoodMs = 0;
  return {
    everyMs: EVERY_MS,
    now: () => Math.min(performance.now(), lookedAt + MAX_MS) - stoodMs,
    look() {
      const at = performance.now();
      stoodMs += Math.max(0, at - lookedAt - MAX_MS);
      lookedAt = at;
    },
  };
}
