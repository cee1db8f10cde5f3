/** Reads bytes from a stream of chunks in the portions that a parser needs; holds one chunk at a time. */
export class ByteReader {
  private readonly chunks: AsyncIterator<Uint8Array>;
  private chunk: Uint8Array = new Uint8Array(0);
  private at = 0;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.chunks = chunks[Symbol.asyncIterator]();
  }

  /** Returns the next byte, or undefined at the end. */
  async byte(): Promise<number | undefined> {
    if (this.at === this.chunk.length && !(await this.more())) return undefined;
    return this.chunk[this.at++];
  }

  /** Fills the whole of `into`; returns false when the stream ended before. */
  async fill(into: Uint8Array): Promise<boolean> {
    return (await this.fillUpTo(into)) === into.length;
  }

  /** Fills as much of `into` as there is before the end; returns how much. */
  async fillUpTo(into: Uint8Array): Promise<number> {
    let done = 0;
    while (done < into.length) {
      if (this.at === this.chunk.length && !(await this.more())) break;
      const part = this.chunk.subarray(this.at, this.at + into.length - done);
      into.set(part, done);
      done += part.length;
      this.at += part.length;
    }
    return done;
  }

  async skip(count: number): Promise<boolean> {
    for (let left = count; left > 0; ) {
      if (this.at === this.chunk.length && !(await this.more())) return false;
      const step = Math.min(left, this.chunk.length - this.at);
      this.at += step;
      left -= step;
    }
    return true;
  }

  private async more(): Promise<boolean> {
    do {
      const next = await this.chunks.next();
      if (next.done) return false;
      this.chunk = next.value;
      this.at = 0;
    } while (this.chunk.length === 0);
    return true;
  }
}
