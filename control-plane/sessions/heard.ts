/**
 * Since when something has answered without a gap. Silence of those who speak through it counts from then on only: before,
 * they may have had nobody to speak to. By the process's own clock, which no change of the date moves.
 * @param gapMs longer than this between two answers is a gap
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
    /** It did not answer, or what was heard so far says nothing any more. */
    beginAnew(): void {
      began = undefined;
    },
    /** Undefined while it does not answer. */
    since(): number | undefined {
      return steady() - last > gapMs ? undefined : began;
    },
  };
}
