/**
 * For what looks again and again at others, to find out who has not been heard of for too long. A look that comes late
 * says that this process itself stood still. What the others sent meanwhile is read before they are judged by it, at the
 * next look: that one counts however late it is, so that a busy machine only puts the judgement off.
 */
export class Standstill {
  readonly #everyMs: number;
  #lookedAt: number | undefined;
  /** The last look, whether it counted or not. */
  #lastAt: number | undefined;

  /** @param everyMs how often it is looked; late is what comes after twice as long */
  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /** Looks begin now. @param now milliseconds of a monotonic clock */
  begin(now: number): void {
    this.#lookedAt = now;
    this.#lastAt = now;
  }

  /**
   * To be asked at any time, before `was` at a look. By how much the next look is late, ms: so long at least this process
   * has stood still. 0: it is not.
   */
  lateMs(now: number): number {
    const since = now - (this.#lastAt ?? now);
    return since > 2 * this.#everyMs ? since - this.#everyMs : 0;
  }

  /** To be asked at each look. True: judge nobody this time. */
  was(now: number): boolean {
    const late = this.#lookedAt !== undefined && now - this.#lookedAt > 2 * this.#everyMs;
    this.#lookedAt = late ? undefined : now;
    this.#lastAt = now;
    return late;
  }
}
