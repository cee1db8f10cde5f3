/**
 * Tracks since when something has answered without a gap. The silence of others who report through it counts only
 * from then on, because before they may not have been able to report. Uses the process's monotonic clock.
 * @param gapMs a longer pause between two answers is a gap
 */
export function createHeard(gapMs: number, steady: () => number = () => performance.now()) {
  let began: number | undefined;
  let last = 0;
  return {
    answered(): void {
      const at = steady();
      if (began === undefined || at - last > gapMs) began = at;
      last = at;
    },
    /** Records that it did not answer, or that earlier answers no longer count. */
    beginAnew(): void {
      began = undefined;
    },
    /** Undefined while it does not answer. */
    since(): number | undefined {
      return steady() - last > gapMs ? undefined : began;
    },
  };
}
