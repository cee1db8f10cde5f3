/** Smoothing of one group of values. */
export interface OneEuroOptions {
  /** Cut-off frequency at rest, in Hz: lower smooths more. */
  readonly atRest: number;
  /** Increase of the cut-off with speed, in Hz per unit per second: higher lags less. */
  readonly withSpeed: number;
}

const SPEED_CUTOFF_HZ = 3;

/**
 * Removes jitter from values over time with little lag in fast motion (Casiez, Roussel and Vogel 2012, "1 €
 * Filter"). Distances between frames may vary.
 */
export class OneEuroFilter {
  readonly #options: OneEuroOptions;
  #values: Float64Array | undefined;
  #speeds = new Float64Array(0);
  #lastUs = 0;

  constructor(options: OneEuroOptions) {
    this.#options = options;
  }

  filter(values: ArrayLike<number>, ptsUs: number): Float64Array {
    const raw = Float64Array.from(values);
    const before = this.#values;
    if (!before) {
      this.#values = raw;
      this.#speeds = new Float64Array(raw.length);
      this.#lastUs = ptsUs;
      return raw.slice();
    }
    const seconds = Math.max(1e-4, (ptsUs - this.#lastUs) / 1e6);
    this.#lastUs = ptsUs;
    const speedShare = share(SPEED_CUTOFF_HZ, seconds);
    // All values of a group share their cut-off, so that a fast point does not bend the shape.
    let quickest = 0;
    for (let i = 0; i < raw.length; i++) {
      const speed = ((raw[i] as number) - (before[i] as number)) / seconds;
      const smooth = (this.#speeds[i] as number) + speedShare * (speed - (this.#speeds[i] as number));
      this.#speeds[i] = smooth;
      quickest = Math.max(quickest, Math.abs(smooth));
    }
    const part = share(this.#options.atRest + this.#options.withSpeed * quickest, seconds);
    for (let i = 0; i < raw.length; i++) {
      before[i] = (before[i] as number) + part * ((raw[i] as number) - (before[i] as number));
    }
    return before.slice();
  }

  /** Forgets everything, as after a cut. */
  reset(): void {
    this.#values = undefined;
  }
}

/** Returns the share of a new value in a low-pass with this cut-off. */
function share(cutoffHz: number, seconds: number): number {
  const tau = 1 / (2 * Math.PI * cutoffHz);
  return 1 / (1 + tau / seconds);
}
