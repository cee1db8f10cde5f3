/**
 * Detects that this process was paused, so that a late poll does not declare its peers dead. A poll that comes late first
 * reads what the peers sent meanwhile; the next poll judges them, however late it is.
 */
export class Standstill {
  readonly #everyMs: number;
  #lookedAt: number | undefined;
  /** Time of the last poll, whether it counted or not. */
  #lastAt: number | undefined;

  /** @param everyMs time between polls; a poll is late after twice as long */
  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /** Polls begin now. @param now milliseconds of a monotonic clock */
  begin(now: number): void {
    this.#lookedAt = now;
    this.#lastAt = now;
  }

  /**
   * Returns by how many milliseconds the next poll is late: so long at least this process was paused. 0 when it is not
   * late. Call it before `was`.
   */
  lateMs(now: number): number {
    const since = now - (this.#lastAt ?? now);
    return since > 2 * this.#everyMs ? since - this.#everyMs : 0;
  }

  /** Call it at each poll. True: judge no peer this time. */
  was(now: number): boolean {
    const late = this.#lookedAt !== undefined && now - this.#lookedAt > 2 * this.#everyMs;
    this.#lookedAt = late ? undefined : now;
    this.#lastAt = now;
    return late;
  }
}
