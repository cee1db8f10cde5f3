/** Node's timers take no longer pause than this. */
const LONGEST_MS = 2 ** 31 - 1;

/** One timer for whatever is due first. Times are those of performance.now(). */
export function createDeadline(onDue: () => void) {
  let timer: NodeJS.Timeout | undefined;
  return {
    /** Undefined: nothing is due, and no timer runs. */
    set(at: number | undefined): void {
      clearTimeout(timer);
      // Rounded up, so that when the timer goes off the time has come.
      const wait = at === undefined ? 0 : Math.ceil(at - performance.now()) + 1;
      timer = at === undefined ? undefined : setTimeout(onDue, Math.min(LONGEST_MS, Math.max(0, wait)));
    },
  };
}
