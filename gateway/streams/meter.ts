import type { MediaFormat } from './media-format.ts';

/**
 * Holds what a session is charged for: the time from the first converted message sent to the client to the end of the
 * last one, by a monotonic clock whose readings are passed in. Sound counts for what it lasts at least, however much
 * of it was sent at once; pictures do not, since how many a second there are is up to the client. It only grows and
 * never passes the ceiling.
 */
export class Meter {
  readonly #ceilingMs: number;
  #first: number | undefined;
  #end = 0;
  readonly #kind: MediaFormat['kind'];
  /** States what all of it lasts, from the first on. */
  #soundMs = 0;

  /** @param ceilingMs what was granted */
  constructor(ceilingMs: number, kind: MediaFormat['kind']) {
    this.#ceilingMs = ceilingMs;
    this.#kind = kind;
  }

  /**
   * Notes a converted message that is given to the client's socket.
   * @param now milliseconds of the clock
   * @param durationMs what the message lasts itself
   * @returns true for the first one
   */
  sent(now: number, durationMs: number): boolean {
    const isFirst = this.#first === undefined;
    this.#first ??= now;
    if (this.#kind === 'voice') this.#soundMs += durationMs;
    this.#end = Math.max(this.#end, now + durationMs, this.#first + this.#soundMs);
    return isFirst;
  }

  /**
   * Whole milliseconds; 0 until something was sent, and only then: a session that streamed a sample is no failed one.
   */
  get streamedMs(): number {
    if (this.#first === undefined) return 0;
    return Math.min(this.#ceilingMs, Math.max(1, Math.round(this.#end - this.#first)));
  }

  /** Returns when, by the same clock, nothing more may be sent; undefined: nothing was sent yet. */
  get limitAt(): number | undefined {
    return this.#first === undefined ? undefined : this.#first + this.#ceilingMs;
  }
}
