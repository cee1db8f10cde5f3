export interface AllowanceOptions {
  /** Sustained rate, in units per millisecond. */
  readonly perMs: number;
  /** Burst allowed at the start, in units. */
  readonly start: number;
  /** Largest burst after a silence in which as many units were due. */
  readonly most: number;
}

/**
 * A token bucket with an external clock. It holds a sender to real time, and lets it make up for a short silence,
 * and for a time in which it was not read; what came due in that time is not lost at `most`. So in total it never
 * admits more than `start` and what came due since the beginning.
 */
export class Allowance {
  readonly #options: AllowanceOptions;
  readonly #mostSpare: number;
  #left: number;
  /** Allowance beyond `most`. It does not grow or expire, and is used last. */
  #spare = 0;
  #at: number | undefined;

  /** @param mostUnreadMs largest unread time that is kept beyond `most`, in ms */
  constructor(options: AllowanceOptions, mostUnreadMs = 0) {
    this.#options = options;
    this.#mostSpare = mostUnreadMs * options.perMs;
    this.#left = options.start;
  }

  /**
   * @param now milliseconds of a monotonic clock
   * @returns false when this exceeds the allowance; nothing was taken
   */
  take(units: number, now: number): boolean {
    this.#fill(now);
    if (units > this.#left + this.#spare) return false;
    const spare = Math.max(0, units - this.#left);
    this.#spare -= spare;
    this.#left -= units - spare;
    return true;
  }

  /**
   * Reports that the sender was not read for the last `ms`. Repeated reports of the same time count once. It also
   * counts before the first message, which may be among the unread ones.
   */
  unread(ms: number, now: number): void {
    const from = Math.max(this.#at ?? now - ms, now - ms);
    this.#fill(from);
    this.#spare = Math.min(this.#mostSpare, this.#spare + this.#fill(now));
  }

  /** @returns units that came due since the last time and exceeded the maximum */
  #fill(now: number): number {
    const { perMs, most } = this.#options;
    const due = this.#left + (now - (this.#at ?? now)) * perMs;
    this.#left = Math.min(most, due);
    this.#at = now;
    return due - this.#left;
  }
}
