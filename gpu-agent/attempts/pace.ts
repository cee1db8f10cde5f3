/** Least progress for an estimate, and least time; after `LONG_MS` any progress is enough. */
const LEAST_SHARE = 0.02;
const LEAST_MS = 1_000;
const LONG_MS = 10_000;

/** Share of the elapsed time in which the pace is measured, and the shortest such time, in ms. */
const WINDOW_SHARE = 0.5;
const LEAST_WINDOW_MS = 30_000;
/** Number of points in the window. */
const MARKS = 32;
/** Time over which a new estimate replaces the former one, in ms. */
const SMOOTH_MS = 5_000;

interface Mark {
  readonly progress: number;
  readonly at: number;
}

/** The pace of work. Times are Unix ms. */
export interface Pace {
  /**
   * Returns the seconds until the work is done at its recent pace; undefined while there is too little to estimate
   * from. The recent pace follows changes. A long window and smoothing keep it from jumping with each frame.
   */
  secondsLeft(progress: number, now: number): number | undefined;
}

export function createPace(progress: number, now: number): Pace {
  const began: Mark = { progress, at: now };
  const marks: Mark[] = [began];
  let lastEstimate: { readonly seconds: number; readonly at: number } | undefined;

  /** Returns the estimate from the pace alone. */
  function estimate(progress: number, now: number): number | undefined {
    const window = Math.max(LEAST_WINDOW_MS, (now - began.at) * WINDOW_SHARE);
    // The newest mark outside the window stays, because the pace is measured from it.
    while (marks[1] && now - marks[1].at >= window) marks.shift();
    const [since = began] = marks;
    if (now - (marks.at(-1) ?? began).at >= window / MARKS) marks.push({ progress, at: now });

    const [done, took] = [progress - began.progress, now - began.at];
    if (took < LEAST_MS || done <= 0 || (done < LEAST_SHARE && took < LONG_MS)) return undefined;
    // Without recent progress, the pace since the beginning counts.
    const from = progress > since.progress ? since : began;
    return (((now - from.at) / (progress - from.progress)) * (1 - progress)) / 1_000;
  }

  return {
    secondsLeft(progress, now) {
      const seconds = estimate(progress, now);
      if (seconds === undefined) return undefined;
      if (lastEstimate) {
        const passedMs = Math.max(0, now - lastEstimate.at);
        const expected = Math.max(0, lastEstimate.seconds - passedMs / 1_000);
        const weight = 1 - Math.exp(-passedMs / SMOOTH_MS);
        lastEstimate = { seconds: expected + (seconds - expected) * weight, at: now };
      } else lastEstimate = { seconds, at: now };
      return lastEstimate.seconds;
    },
  };
}
