interface Mark {
  /** Units sent up to and with it. */
  readonly sent: number;
  at: number;
}

/** Clients give up a server that sends pings faster than they can answer; `ws` does at 60. */
const MAX_MARKS = 20;

/**
 * How much of what was sent the client has not read yet. What the kernel has taken is not read: megabytes wait there,
 * which is minutes of sound. So a ping goes out after every so many units, and its pong, which the client's end of the
 * socket sends when it comes to the ping, says that all before was read. A client that never answered a ping is not
 * judged by this.
 */
export class Delivery {
  readonly #every: number;
  #sent = 0;
  #read = 0;
  /** Number of the first of the marks. */
  #from = 1;
  readonly #marks: Mark[] = [];
  #confirmed = false;

  /** @param every units between two pings */
  constructor(every: number) {
    this.#every = every;
  }

  /** @returns the number that a ping is to carry now; undefined: none is due */
  sent(units: number, now: number): number | undefined {
    this.#sent += units;
    return this.#mark(now);
  }

  /**
   * A pong came, with this number; one that no ping carried, or that came before, changes nothing.
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
    // Until the first pong one ping is enough to find out whether there will be any.
    if (this.#marks.length >= (this.#confirmed ? MAX_MARKS : 1)) return undefined;
    if (this.#sent - (this.#marks.at(-1)?.sent ?? this.#read) < this.#every) return undefined;
    this.#marks.push({ sent: this.#sent, at: now });
    return this.#from + this.#marks.length - 1;
  }

  /** Pongs could not be heard until now: the wait for them begins anew. */
  restart(now: number): void {
    for (const mark of this.#marks) mark.at = now;
  }

  /** The client answers pings. */
  get isConfirmed(): boolean {
    return this.#confirmed;
  }

  /** Units sent that the client has not been seen to read. */
  get unread(): number {
    return this.#sent - this.#read;
  }

  /** For how long the oldest ping has been waiting for its pong, ms. */
  waited(now: number): number {
    const [oldest] = this.#marks;
    return oldest ? now - oldest.at : 0;
  }
}
