interface Mark {
  /** Units sent up to and including it. */
  readonly sent: number;
  at: number;
}

/** Most unanswered pings. Clients drop a server that sends pings faster than they can answer; `ws` does at 60. */
const MAX_MARKS = 20;

/**
 * Measures how much of the sent media the client has not read. Data in the kernel is not read: megabytes wait
 * there, which is minutes of sound. So a ping is sent after every `every` units. Its pong, which the client sends
 * when it reaches the ping, means that everything before was read. A client that never answered a ping is not
 * judged.
 */
export class Delivery {
  readonly #every: number;
  #sent = 0;
  #read = 0;
  /** Number of the first mark. */
  #from = 1;
  readonly #marks: Mark[] = [];
  #confirmed = false;

  /** @param every units between two pings */
  constructor(every: number) {
    this.#every = every;
  }

  /** @returns the number for a ping that is now due; undefined when none is */
  sent(units: number, now: number): number | undefined {
    this.#sent += units;
    return this.#mark(now);
  }

  /**
   * Records a pong; a number that no ping carried, or that came before, changes nothing.
   * @returns as `sent` does
   */
  read(number: number, now: number): number | undefined {
    const count = number - this.#from + 1;
    if (!Number.isInteger(count) || count < 1 || count > this.#marks.length) return undefined;
    this.#confirmed = true;
    this.#from += count;
    this.#read = this.#marks.splice(0, count).at(-1)?.sent ?? this.#read;
    return this.#mark(now);
  }

  #mark(now: number): number | undefined {
    // Until the first pong, one ping is enough to learn whether the client answers.
    if (this.#marks.length >= (this.#confirmed ? MAX_MARKS : 1)) return undefined;
    if (this.#sent - (this.#marks.at(-1)?.sent ?? this.#read) < this.#every) return undefined;
    this.#marks.push({ sent: this.#sent, at: now });
    return this.#from + this.#marks.length - 1;
  }

  /** Pongs could not be received until now, so the wait for them begins anew. */
  restart(now: number): void {
    for (const mark of this.#marks) mark.at = now;
  }

  /** Whether the client answers pings. */
  get isConfirmed(): boolean {
    return this.#confirmed;
  }

  /** Units sent that the client is not known to have read. */
  get unread(): number {
    return this.#sent - this.#read;
  }

  /** Age of the oldest ping without a pong, in ms. */
  waited(now: number): number {
    const [oldest] = this.#marks;
    return oldest ? now - oldest.at : 0;
  }
}
