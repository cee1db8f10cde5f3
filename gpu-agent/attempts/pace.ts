/** So much must be done, in so much time, before the rest is estimated from it; after a while anything will do. */
const LEAST_SHARE = 0.02;
const LEAST_MS = 1_000;
const LONG_MS = 10_000;

/** What was done in the later half of the time counts, and in half a minute at least. */
const WINDOW_SHARE = 0.5;
const LEAST_WINDOW_MS = 30_000;
/** Points of a window that are remembered. */
const MARKS = 32;
/** A new estimate takes the place of the running-down old one over about this time. */
const SMOOTH_MS = 5_000;

interface Mark {
  readonly progress: number;
  readonly at: number;
}

/** How fast work goes on. Times are Unix milliseconds. */
export interface Pace {
  /**
   * Seconds until the work is done if it goes on as it did of late; undefined while there is too little to go by. Of
   * late and not since the beginning, so that an estimate follows a pace that changes; over so long a time, and moved so
   * gently, that it does not jump with each frame.
   */
  secondsLeft(progress: number, now: number): number | undefined;
}

export function createPace(progress: number, now: number): Pace {
  const began: Mark = { progress, at: now };
  const marks: Mark[] = [began];
  let told: { readonly seconds: number; readonly at: number } | undefined;

  /** By the pace alone. */
  function estimate(progress: number, now: number): number | undefined {
    const window = Math.max(LEAST_WINDOW_MS, (now - began.at) * WINDOW_SHARE);
    // The youngest of those that are older than the window stays: from there on the pace is taken.
    while (marks[1] && now - marks[1].at >= window) marks.shift();
    const [since = began] = marks;
    if (now - (marks.at(-1) ?? began).at >= window / MARKS) marks.push({ progress, at: now });

    const [done, took] = [progress - began.progress, now - began.at];
    if (took < LEAST_MS || done <= 0 || (done < LEAST_SHARE && took < LONG_MS)) return undefined;
    // Nothing of late, though something before: that is all there is to go by.
    const from = progress > since.progress ? since : began;
    return (((now - from.at) / (progress - from.progress)) * (1 - progress)) / 1_000;
  }

  return {
    secondsLeft(progress, now) {
      const seconds = estimate(progress, now);
      if (seconds === undefined) return undefined;
      if (told) {
        const passedMs = Math.max(0, now - told.at);
        const expected = Math.max(0, told.seconds - passedMs / 1_000);
        const weight = 1 - Math.exp(-passedMs / SMOOTH_MS);
        told = { seconds: expected + (seconds - expected) * weight, at: now };
      } else told = { seconds, at: now };
      return told.seconds;
    },
  };
}
