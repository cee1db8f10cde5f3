export interface AllowanceOptions {
  /** Units that may come in a millisecond, for as long as one likes. */
  readonly perMs: number;
  /** Units that may come at once at the beginning. */
  readonly start: number;
  /** Most units that may come at once after a silence, in which as many were due. */
  readonly most: number;
}

/** A token bucket whose clock is passed in. It holds a sender to real time and lets it make up for a short silence. */
export class Allowance {
  readonly #options: AllowanceOptions;
  #left: number;
  #at: number | undefined;

  constructor(options: AllowanceOptions) {
    this.#options = options;
    this.#left = options.start;
  }

  /**
   * @param now milliseconds of a monotonic clock
   * @returns false: that is more than may come; nothing was taken
   */
  take(units: number, now: number): boolean {
    const { perMs, most } = this.#options;
    this.#left = Math.min(most, this.#left + (now - (this.#at ?? now)) * perMs);
    this.#at = now;
    if (units > this.#left) return false;
    this.#left -= units;
    return true;
  }
}
