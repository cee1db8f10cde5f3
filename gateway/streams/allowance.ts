export interface AllowanceOptions {
  /** Units that may come in a millisecond, for as long as one likes. */
  readonly perMs: number;
  /** Units that may come at once at the beginning. */
  readonly start: number;
  /** Most units that may come at once after a silence, in which as many were due. */
  readonly most: number;
}

/**
 * A token bucket whose clock is passed in. It holds a sender to real time and lets it make up for a short silence, and for
 * a time in which it was not read: of what came due then nothing is lost at `most`. So it never takes more in all than
 * came due since the beginning, and `start`.
 */
export class Allowance {
  readonly #options: AllowanceOptions;
  readonly #mostSpare: number;
  #left: number;
  /** Beyond `most`: it neither grows by itself nor lapses, and is taken when nothing else is left. */
  #spare = 0;
  #at: number | undefined;

  /** @param mostUnreadMs of the times in which nothing was read, the most that is kept beyond `most`, ms */
  constructor(options: AllowanceOptions, mostUnreadMs = 0) {
    this.#options = options;
    this.#mostSpare = mostUnreadMs * options.perMs;
    this.#left = options.start;
  }

  /**
   * @param now milliseconds of a monotonic clock
   * @returns false: that is more than may come; nothing was taken
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
   * The sender was not read for the last `ms`. What was filled up to is not counted again, however often the same time is
   * told. It counts before the first message, too: that may be among what was not read.
   */
  unread(ms: number, now: number): void {
    const from = Math.max(this.#at ?? now - ms, now - ms);
    this.#fill(from);
    this.#spare = Math.min(this.#mostSpare, this.#spare + this.#fill(now));
  }

  /** @returns what came due since the last time and had no room */
  #fill(now: number): number {
    const { perMs, most } = this.#options;
    const due = this.#left + (now - (this.#at ?? now)) * perMs;
    this.#left = Math.min(most, due);
    this.#at = now;
    return due - this.#left;
  }
}
