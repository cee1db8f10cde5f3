/**
 * A clock that advances this much more than the process's own between two readings was set. Less does no harm:
 * gateways report several times within the silence that ends a session.
 */
export const STEP_MS = 2_000;
/** A reading that took longer is too imprecise for later comparisons, in ms. */
const PRECISE_MS = 1_000;

/**
 * Detects whether another machine's clock is set forwards, by the process's monotonic clock. Each reading was made
 * at some moment while it was under way, so a slow reading is no step.
 */
export function createSteppedClock() {
  /** Lead over the process's own clock: least and most. */
  let ahead: { readonly least: number; readonly most: number } | undefined;
  let steppedAt: number | undefined;
  return {
    /**
     * Returns the latest possible reading at a moment of the process's clock unless the clock was set; undefined
     * when nothing is known about it.
     */
    latest(at: number): number | undefined {
      return ahead && at + ahead.most + STEP_MS;
    },
    /** @returns whether it was set forwards since the reading before */
    read(shownMs: number, askedAt: number, answeredAt: number): boolean {
      const now = { least: shownMs - answeredAt, most: shownMs - askedAt };
      const forwards = ahead !== undefined && now.least > ahead.most + STEP_MS;
      const back = ahead !== undefined && now.most < ahead.least - STEP_MS;
      if (forwards) steppedAt = answeredAt;
      if (!ahead || forwards || back || now.most - now.least < PRECISE_MS) ahead = now;
      return forwards;
    },
    /** Time since it was set forwards, in ms; undefined: never, as far as is known. */
    sinceStep: (at: number): number | undefined => (steppedAt === undefined ? undefined : at - steppedAt),
  };
}
