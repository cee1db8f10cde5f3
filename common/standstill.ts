/**
 * Detects that this process was paused, so that a late poll does not declare its peers dead. A poll that comes late first
 * reads what the peers sent meanwhile; the next poll judges them, however late it is.
 */
export class Standstill {
  readonly #everyMs: number;
  #lookedAt: number | undefined;
  /** Time of the last poll, also of a late one. */
  #lastAt: number | undefined;

  /** @param everyMs time between polls; a poll is late after more than twice as long */
  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /** Starts the polls at `now`. @param now milliseconds of a monotonic clock */
  begin(now: number): void {
    this.#lookedAt = now;
    this.#lastAt = now;
  }

  /**
   * Returns by how many milliseconds a poll at `now` is late. This process was paused for at least that long. 0
   * when the poll is not late. Call it before `was`.
   */
  lateMs(now: number): number {
    const since = now - (this.#lastAt ?? now);
    return since > 2 * this.#everyMs ? since - this.#everyMs : 0;
  }

  /** Records a poll at `now`; call it at each poll. True: judge no peer this time. */
  was(now: number): boolean {
    const late = this.#lookedAt !== undefined && now - this.#lookedAt > 2 * this.#everyMs;
    this.#lookedAt = late ? undefined : now;
    this.#lastAt = now;
    return late;
  }
}
