/** Full scale of 16-bit samples. */
export const FULL_SCALE = 32_768;
/** Largest 16-bit sample of the output: 2 dB below full scale. */
export const CEILING = Math.floor(FULL_SCALE * 10 ** (-2 / 20));
const CEILING_SHARE = CEILING / FULL_SCALE;
/** Time in which the gain falls before a peak, in seconds. The sound is delayed by it. */
const AHEAD_SEC = 0.0015;
/**
 * Time in which the gain returns after a peak to a share 1/e of its fall, in seconds. It is longer than a period of
 * the lowest voice, so that the gain does not follow single pulses, and shorter than a pause between words.
 */
const RELEASE_SEC = 0.1;
/** Gain from which the return is complete. */
const RETURNED = 0.9999;
/** Largest input, as a share of full scale. Beyond it, sums of gains would be too inexact. */
const MOST = 1_000;

/**
 * Keeps a stream at or below {@link CEILING} by a gain that falls smoothly before a peak and returns slowly after it.
 * The gain is the moving average of the least gain that any sample of the look-ahead needs, as in Hämäläinen,
 * "Smoothing of the control signal without clipped output in digital peak limiters" (DAFx 2002). Sound that stays
 * below the ceiling is not changed.
 */
export class Limiter {
  /** Delay of the sound, in samples. */
  readonly delay: number;

  readonly #release: number;
  readonly #mask: number;
  /** Sound and gains of the look-ahead: that of sample `n` at `n & mask`. */
  readonly #held: Float64Array;
  readonly #gains: Float64Array;
  /** Samples of the look-ahead that need a lower gain than all after them: their gains and numbers, oldest first. */
  readonly #needs: Float64Array;
  readonly #needers: Float64Array;
  #first = 0;
  #end = 0;
  #now = 0;
  #gain = 1;
  /** Sum of the gains of the look-ahead, and how many of them are below 1. */
  #sum: number;
  #lowered = 0;

  constructor(sampleRate: number) {
    this.delay = Math.round(AHEAD_SEC * sampleRate);
    this.#release = 1 - Math.exp(-1 / (RELEASE_SEC * sampleRate));
    const size = 2 ** Math.ceil(Math.log2(this.delay + 2));
    this.#mask = size - 1;
    this.#held = new Float64Array(size);
    this.#gains = new Float64Array(size).fill(1);
    this.#needs = new Float64Array(size);
    this.#needers = new Float64Array(size);
    this.#sum = this.delay + 1;
  }

  /**
   * Replaces the first `count` samples by the limited sound from `delay` samples before. Full scale is 1. NaN counts
   * as silence, because one would make all later gains NaN.
   */
  apply(samples: Float64Array, count = samples.length): void {
    for (let i = 0; i < count; i++) {
      if (this.#lowered === 0) i = this.#pass(samples, i, count);
      if (i < count) samples[i] = this.#limit(samples[i] as number);
    }
  }

  /** Delays samples from number `i` on until one is above the ceiling, and returns its number. */
  #pass(samples: Float64Array, i: number, count: number): number {
    const [held, mask, delay] = [this.#held, this.#mask, this.delay];
    let at = i;
    let now = this.#now;
    for (; at < count; at++, now++) {
      const value = samples[at] as number;
      // This is false for NaN.
      if (!(Math.abs(value) <= CEILING_SHARE)) break;
      held[now & mask] = value;
      samples[at] = held[(now - delay) & mask] as number;
    }
    this.#now = now;
    return at;
  }

  #limit(given: number): number {
    const [held, mask, now] = [this.#held, this.#mask, this.#now++];
    const value = Number.isNaN(given) ? 0 : Math.max(-MOST, Math.min(MOST, given));
    held[now & mask] = value;
    this.#follow(now, this.#least(now, Math.abs(value)));
    const late = held[(now - this.delay) & mask] as number;
    return this.#lowered === 0 ? late : (late * this.#sum) / (this.delay + 1);
  }

  /** Returns the least gain that a sample of the look-ahead needs. */
  #least(now: number, size: number): number {
    const [needs, needers, mask] = [this.#needs, this.#needers, this.#mask];
    if (this.#first < this.#end && (needers[this.#first & mask] as number) < now - this.delay) this.#first++;
    if (size > CEILING_SHARE) {
      const need = CEILING_SHARE / size;
      while (this.#end > this.#first && (needs[(this.#end - 1) & mask] as number) >= need) this.#end--;
      needs[this.#end & mask] = need;
      needers[this.#end & mask] = now;
      this.#end++;
    }
    return this.#first < this.#end ? (needs[this.#first & mask] as number) : 1;
  }

  /** Sets the gain of a sample, and the sum over the look-ahead. */
  #follow(now: number, least: number): void {
    const [gains, mask] = [this.#gains, this.#mask];
    const returning = this.#gain + (1 - this.#gain) * this.#release;
    this.#gain = Math.min(least, returning > RETURNED ? 1 : returning);
    const left = gains[(now - this.delay - 1) & mask] as number;
    gains[now & mask] = this.#gain;
    if (left < 1) this.#lowered--;
    if (this.#gain < 1) this.#lowered++;
    if (this.#lowered > 0) this.#sum += this.#gain - left;
    else {
      // This ends the rounding errors of the sum, and prepares for samples that pass.
      this.#sum = this.delay + 1;
      gains.fill(1);
      this.#first = this.#end;
    }
  }
}

/** Rounds to 16 bits. @param value from -1 to below 1 */
export function toSample(value: number): number {
  // This is faster than Math.round. The value is made positive, so that truncating rounds down.
  return ((value * FULL_SCALE + FULL_SCALE + 0.5) | 0) - FULL_SCALE;
}
