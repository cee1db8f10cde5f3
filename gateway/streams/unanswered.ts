interface Entry {
  readonly sequence: bigint;
  readonly units: number;
  readonly at: number;
}

/** Messages sent to the agent and not answered yet. An answer to a message covers all messages before it. */
export class Unanswered {
  #entries: Entry[] = [];
  #units = 0;

  sent(sequence: bigint, units: number, now: number): void {
    this.#entries.push({ sequence, units, at: now });
    this.#units += units;
  }

  /** @returns when the answered message was sent; undefined when it was answered before */
  answered(sequence: bigint): number | undefined {
    let at: number | undefined;
    let count = 0;
    for (const entry of this.#entries) {
      if (entry.sequence > sequence) break;
      this.#units -= entry.units;
      at = entry.at;
      count++;
    }
    if (count > 0) this.#entries.splice(0, count);
    return at;
  }

  get units(): number {
    return this.#units;
  }

  get messages(): number {
    return this.#entries.length;
  }
}
