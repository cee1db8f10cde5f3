import { setTimeout as delay } from 'node:timers/promises';

/** Reads the chunks of a body, and keeps the end of it, whatever that is, until what came before is stored. */
export class BodyReader {
  readonly #source: AsyncIterator<Buffer>;
  readonly #signal: AbortSignal;
  readonly #stopped: Promise<IteratorResult<Buffer>>;
  #pending: Promise<IteratorResult<Buffer>> | undefined;
  #before: Buffer[] = [];
  /** Why the body ended early; undefined while it goes on, and after its proper end. */
  failure: unknown;
  #ended = false;

  /** @param signal ends the reading as a failure with its reason */
  constructor(source: AsyncIterator<Buffer>, signal: AbortSignal) {
    this.#source = source;
    this.#signal = signal;
    this.#stopped = new Promise((_resolve, reject) => {
      const stop = () => reject(signal.reason as Error);
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
    });
    this.#stopped.catch(() => {});
  }

  /** Puts a chunk back, to be read next. */
  unread(chunk: Buffer): void {
    if (chunk.length > 0) this.#before.unshift(chunk);
  }

  /** Returns the next chunk; undefined at the end; `late` when none came in this time, in ms. */
  async next(withinMs = Number.POSITIVE_INFINITY): Promise<Buffer | 'late' | undefined> {
    const kept = this.#before.shift();
    if (kept) return kept;
    if (this.#ended) return undefined;
    this.#pending ??= this.#source.next();
    this.#pending.catch(() => {});
    const timer = new AbortController();
    try {
      const arrived = await Promise.race([
        this.#pending,
        this.#stopped,
        ...(Number.isFinite(withinMs) ? [late(withinMs, timer.signal)] : []),
      ]);
      if (arrived === 'late') return 'late';
      this.#pending = undefined;
      if (!arrived.done) return arrived.value;
    } catch (error) {
      this.failure = this.#signal.aborted ? this.#signal.reason : error;
    } finally {
      timer.abort();
    }
    this.#ended = true;
    return undefined;
  }

  /** Returns the first bytes, as many as wanted or all there are, which are read again later. */
  async peek(bytes: number): Promise<Buffer> {
    const chunks: Buffer[] = [];
    for (let length = 0; length < bytes; ) {
      const chunk = (await this.next()) as Buffer | undefined;
      if (!chunk) break;
      chunks.push(chunk);
      length += chunk.length;
    }
    const head = Buffer.concat(chunks);
    this.unread(head);
    return head;
  }

  /** Ends the source, without waiting for bytes that may never come. */
  async close(): Promise<void> {
    const ended = this.#source.return?.();
    ended?.catch(() => {});
    if (!this.#pending) await ended;
  }
}

async function late(ms: number, signal: AbortSignal): Promise<'late'> {
  await delay(ms, undefined, { signal }).catch(() => {});
  return 'late';
}
