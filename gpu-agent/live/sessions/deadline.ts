/** Longest delay of Node's timers, in ms. */
const LONGEST_MS = 2 ** 31 - 1;

/** Creates one timer for the earliest deadline. Times are those of performance.now(). */
export function createDeadline(onDue: () => void) {
  let timer: NodeJS.Timeout | undefined;
  return {
    /** Sets the earliest deadline. With undefined no timer runs. */
    set(at: number | undefined): void {
      clearTimeout(timer);
      // The delay is rounded up, so that the time has come when the timer fires.
      const wait = at === undefined ? 0 : Math.ceil(at - performance.now()) + 1;
      timer = at === undefined ? undefined : setTimeout(onDue, Math.min(LONGEST_MS, Math.max(0, wait)));
    },
  };
}
