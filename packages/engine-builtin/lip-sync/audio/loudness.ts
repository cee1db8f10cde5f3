import { BANDS } from './log-mel.ts';

const LOWEST = -24;
const STEP = 0.25;
const STEPS = 120;
/** Share of the frames with sound that are quieter than the level. */
const QUANTILE = 0.9;
/** Loudness below which a frame is silent in any recording. */
const SILENCE = -15;

/** Returns the mean of the bands of a frame. */
function frameLevel(frames: Float32Array, at: number): number {
  let sum = 0;
  for (let b = 0; b < BANDS; b++) sum += frames[at + b] as number;
  return sum / BANDS;
}

/** Measures the level of the loud parts of a recording of any length, in the unit of log-mel frames. */
export class Loudness {
  readonly #counts = new Float64Array(STEPS);

  add(frames: Float32Array): void {
    for (let at = 0; at < frames.length; at += BANDS) {
      const level = frameLevel(frames, at);
      if (level < SILENCE) continue;
      const step = Math.min(STEPS - 1, Math.max(0, Math.round((level - LOWEST) / STEP)));
      this.#counts[step] = (this.#counts[step] as number) + 1;
    }
  }

  /** The level, with a minimum, so that the noise of a silent recording does not count as speech. */
  get level(): number {
    let left = QUANTILE * this.#counts.reduce((a, b) => a + b, 0);
    if (left === 0) return SILENCE + 4;
    for (let step = 0; step < STEPS; step++) {
      left -= this.#counts[step] as number;
      if (left <= 0) return Math.max(LOWEST + step * STEP, SILENCE + 4);
    }
    return SILENCE + 4;
  }
}
