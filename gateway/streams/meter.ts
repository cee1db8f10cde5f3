import type { MediaFormat } from './media-format.ts';

/**
 * Measures the billed time of a session: from the first converted message sent to the client to the end of the last
 * one, by a monotonic clock whose readings are passed in. Sound counts for at least its own length, however much
 * was sent at once. Pictures do not, because the client decides how many there are per second. The value only grows
 * and never exceeds the ceiling.
 */
export class Meter {
  readonly #ceilingMs: number;
  #first: number | undefined;
  #end = 0;
  readonly #kind: MediaFormat['kind'];
  /** Length of all sound since the first message. */
  #soundMs = 0;

  /** @param ceilingMs the granted time */
  constructor(ceilingMs: number, kind: MediaFormat['kind']) {
    this.#ceilingMs = ceilingMs;
    this.#kind = kind;
  }

  /**
   * Records a converted message that is given to the client's socket.
   * @param now milliseconds of the clock
   * @param durationMs the message's own length
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
   * Whole milliseconds. It is 0 only before anything was sent, so that a session that streamed one sample has not
   * failed.
   */
  get streamedMs(): number {
    if (this.#first === undefined) return 0;
    return Math.min(this.#ceilingMs, Math.max(1, Math.round(this.#end - this.#first)));
  }

  /** Time, by the same clock, from which nothing more may be sent; undefined before anything was sent. */
  get limitAt(): number | undefined {
    return this.#first === undefined ? undefined : this.#first + this.#ceilingMs;
  }
}
