import { MultipartError, type PartHeader, parsePartHeader } from './multipart-header.ts';

const MAX_HEADER_BYTES = 16 * 1024;
/** Most bytes before the first boundary; nobody sends any. */
const MAX_PREAMBLE_BYTES = 4 * 1024;
const MAX_PARTS = 100;
const DASH = 0x2d;
const CR = 0x0d;
const EMPTY = Buffer.alloc(0);

/**
 * A pull reader of multipart/form-data (RFC 7578): one pass, bounded memory, strict. Common streaming parsers
 * report a part's end before they know whether the form is complete, and report a missing Content-Type as
 * `text/plain`. An upload must distinguish both, so this parser exists.
 */
export class MultipartReader {
  readonly #source: AsyncIterator<Buffer>;
  readonly #delimiter: Buffer;
  /** Read from the source and not consumed. A line break before it makes the first boundary look like the others. */
  #buffer: Buffer = Buffer.from('\r\n');
  #state: 'preamble' | 'body' | 'delimiter' | 'end' = 'preamble';
  #parts = 0;

  constructor(source: AsyncIterable<Buffer>, boundary: string) {
    this.#source = source[Symbol.asyncIterator]();
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  }

  /**
   * Goes to the next part and skips the rest of the current one.
   * @returns undefined after the closing boundary
   * @throws MultipartError, and errors of the source
   */
  async nextPart(): Promise<PartHeader | undefined> {
    if (this.#state === 'end') return undefined;
    let skipped = 0;
    const first = this.#state === 'preamble';
    for await (const chunk of this.body()) {
      skipped += chunk.length;
      if (first && skipped > MAX_PREAMBLE_BYTES)
        throw new MultipartError('The form does not begin with its boundary.');
    }
    if (await this.#closes()) {
      this.#state = 'end';
      return undefined;
    }
    if (++this.#parts > MAX_PARTS) throw new MultipartError(`The form has more than ${MAX_PARTS} parts.`);
    const header = parsePartHeader(await this.#headerBlock());
    this.#state = 'body';
    return header;
  }

  /** Yields the bytes of the current part, up to its boundary. */
  async *body(): AsyncGenerator<Buffer> {
    if (this.#state !== 'body' && this.#state !== 'preamble') return;
    for (;;) {
      const at = this.#buffer.indexOf(this.#delimiter);
      if (at >= 0) {
        const last = this.#buffer.subarray(0, at);
        this.#buffer = this.#buffer.subarray(at + this.#delimiter.length);
        this.#state = 'delimiter';
        if (last.length > 0) yield last;
        return;
      }
      const safe = this.#withoutPossibleDelimiter();
      if (safe > 0) {
        const chunk = this.#buffer.subarray(0, safe);
        this.#buffer = this.#buffer.subarray(safe);
        yield chunk;
      }
      await this.#more();
    }
  }

  /** Returns the number of bytes in the buffer that cannot begin a boundary. */
  #withoutPossibleDelimiter(): number {
    const { length } = this.#buffer;
    let at = Math.max(0, length - this.#delimiter.length + 1);
    for (;;) {
      at = this.#buffer.indexOf(CR, at);
      if (at < 0) return length;
      if (this.#buffer.compare(this.#delimiter, 0, length - at, at, length) === 0) return at;
      at++;
    }
  }

  /** After a boundary: `--` closes the form; a line end, with padding before it, begins a part. */
  async #closes(): Promise<boolean> {
    await this.#atLeast(2);
    if (this.#buffer[0] === DASH && this.#buffer[1] === DASH) return true;
    let at = 0;
    for (;;) {
      await this.#atLeast(at + 2);
      const byte = this.#buffer[at];
      if (byte === CR && this.#buffer[at + 1] === 0x0a) break;
      if ((byte !== 0x20 && byte !== 0x09) || at > 256)
        throw new MultipartError('A boundary of the form is followed by something else than a line end.');
      at++;
    }
    // The line end stays, because a part without headers begins with an empty line.
    this.#buffer = this.#buffer.subarray(at);
    return false;
  }

  async #headerBlock(): Promise<string> {
    for (;;) {
      const end = this.#buffer.indexOf('\r\n\r\n');
      if (end > MAX_HEADER_BYTES || (end < 0 && this.#buffer.length > MAX_HEADER_BYTES))
        throw new MultipartError(`The headers of a part are longer than ${MAX_HEADER_BYTES / 1024} KiB.`);
      if (end >= 0) {
        const block = this.#buffer.toString('utf8', 2, Math.max(2, end));
        this.#buffer = this.#buffer.subarray(end + 4);
        return block;
      }
      await this.#more();
    }
  }

  async #atLeast(bytes: number): Promise<void> {
    while (this.#buffer.length < bytes) await this.#more();
  }

  async #more(): Promise<void> {
    const { done, value } = await this.#source.next();
    if (done) throw new MultipartError('The form ends before its closing boundary.');
    this.#buffer = this.#buffer.length === 0 ? value : Buffer.concat([this.#buffer, value]);
  }

  /** Stops reading the source. */
  async close(): Promise<void> {
    this.#state = 'end';
    this.#buffer = EMPTY;
    await this.#source.return?.();
  }
}
