/**
 * For what looks again and again at others, to find out who has not been heard of for too long. A look that comes late
 * says that this process itself stood still. What the others sent meanwhile is read before they are judged by it, at the
 * next look: that one counts however late it is, so that a busy machine only puts the judgement off.
 */
export class Standstill {
  readonly #everyMs: number;
  #lookedAt: number | undefined;

  /** @param everyMs how often it is looked; late is what comes after twice as long */
  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /** Looks begin now. @param now milliseconds of a monotonic clock */
  begin(now: number): void {
    this.#lookedAt = now;
  }

  /** To be asked at each look. True: judge nobody this time. */
  was(now: number): boolean {
    const late = this.#lookedAt !== undefined && now - this.#lookedAt > 2 * this.#everyMs;
    this.#lookedAt = late ? undefined : now;
    return late;
  }
}
