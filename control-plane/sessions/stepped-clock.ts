/**
 * A clock that goes this much further than the process's own between two readings was set. Less does no harm: gateways
 * report several times in the silence that ends a session.
 */
export const STEP_MS = 2_000;
/** A reading that took longer says too little about the clock to compare later ones with. */
const PRECISE_MS = 1_000;

/**
 * Tells whether another machine's clock is set forwards while it is watched, by the process's own clock, which nobody
 * sets. Each reading was made at some moment while it was under way; what took long is no step.
 */
export function createSteppedClock() {
  /** How far it is ahead of the process's own: at least and at most. */
  let ahead: { readonly least: number; readonly most: number } | undefined;
  let steppedAt: number | undefined;
  return {
    /**
     * The latest it can show at a moment of the process's clock unless it was set; undefined: nothing is known of it.
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
    /** Time since it was set forwards, ms; undefined: never, as far as is known. */
    sinceStep: (at: number): number | undefined => (steppedAt === undefined ? undefined : at - steppedAt),
  };
}
