/** How one group of values is smoothed. */
export interface OneEuroOptions {
  /** Cut-off at rest, Hz: lower smooths more. */
  readonly atRest: number;
  /** How much the cut-off rises with speed, Hz per unit a second: higher lags less. */
  readonly withSpeed: number;
}

const SPEED_CUTOFF_HZ = 3;

/**
 * Takes the jitter out of values over time and lags little when they move quickly (Casiez, Roussel and Vogel 2012,
 * "1 € Filter"). Distances between frames may vary.
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
    // All values of a group share their cut-off: a shape is not bent by one point being quicker than the next.
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

  /** Forgets what came before, as after a cut. */
  reset(): void {
    this.#values = undefined;
  }
}

/** Share of a new value that a low-pass of this cut-off takes. */
function share(cutoffHz: number, seconds: number): number {
  const tau = 1 / (2 * Math.PI * cutoffHz);
  return 1 / (1 + tau / seconds);
}
