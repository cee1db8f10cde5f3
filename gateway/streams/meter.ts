/**
 * What a session is charged for: the time from the first converted message sent to the client to the end of the last
 * one, by a monotonic clock whose readings are passed in. It only grows and never passes the ceiling.
 */
export class Meter {
  readonly #ceilingMs: number;
  #first: number | undefined;
  #end = 0;

  /** @param ceilingMs what was granted */
  constructor(ceilingMs: number) {
    this.#ceilingMs = ceilingMs;
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
    this.#end = Math.max(this.#end, now + durationMs);
    return isFirst;
  }

  /** Whole milliseconds; 0 until something was sent. */
  get streamedMs(): number {
    if (this.#first === undefined) return 0;
    return Math.min(this.#ceilingMs, Math.round(this.#end - this.#first));
  }

  /** When, by the same clock, nothing more may be sent; undefined: nothing was sent yet. */
  get limitAt(): number | undefined {
    return this.#first === undefined ? undefined : this.#first + this.#ceilingMs;
  }
}
