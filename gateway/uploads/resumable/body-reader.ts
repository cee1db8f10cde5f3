import { setTimeout as delay } from 'node:timers/promises';

/** When the reading is ended from outside, what arrived already is read: until nothing comes for this time, in ms. */
const QUIET_MS = 100;
/** Longest time of that, in ms. */
const LAST_MS = 1_000;

/** Reads the chunks of a body, and keeps the end of it, whatever that is, until what came before is stored. */
export class BodyReader {
  readonly #source: AsyncIterator<Buffer>;
  readonly #signal: AbortSignal;
  readonly #stopped: Promise<'stopped'>;
  #pending: Promise<IteratorResult<Buffer>> | undefined;
  #before: Buffer[] = [];
  #until = Number.POSITIVE_INFINITY;
  /** Why the body ended early; undefined while it goes on, and after its proper end. */
  failure: unknown;
  #ended = false;

  /** @param signal ends the reading as a failure with its reason */
  constructor(source: AsyncIterator<Buffer>, signal: AbortSignal) {
    this.#source = source;
    this.#signal = signal;
    this.#stopped = new Promise((resolve) => {
      const stop = () => {
        this.#until = performance.now() + LAST_MS;
        resolve('stopped');
      };
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
    });
  }

  /** Puts a chunk back, to be read next. */
  unread(chunk: Buffer): void {
    if (chunk.length > 0) this.#before.unshift(chunk);
  }

  /** Returns the next chunk; undefined at the end; `late` when none came in this time, in ms. */
  async next(withinMs = Number.POSITIVE_INFINITY): Promise<Buffer | 'late' | undefined> {
    const kept = this.#before.shift();
    if (kept) return kept;
    while (!this.#ended) {
      const stopping = this.#signal.aborted;
      const wait = stopping ? Math.min(QUIET_MS, this.#until - performance.now()) : withinMs;
      try {
        const arrived = wait > 0 ? await this.#arrival(wait, stopping) : 'late';
        if (arrived === 'stopped') continue;
        if (arrived !== 'late') {
          this.#pending = undefined;
          if (!arrived.done) return arrived.value;
        } else if (!stopping) return 'late';
        else this.failure = this.#signal.reason;
      } catch (error) {
        this.failure = error;
      }
      this.#ended = true;
    }
    return undefined;
  }

  async #arrival(waitMs: number, stopping: boolean): Promise<IteratorResult<Buffer> | 'late' | 'stopped'> {
    this.#pending ??= this.#source.next();
    this.#pending.catch(() => {});
    const timer = new AbortController();
    try {
      return await Promise.race([
        this.#pending,
        ...(stopping ? [] : [this.#stopped]),
        ...(Number.isFinite(waitMs) ? [late(waitMs, timer.signal)] : []),
      ]);
    } finally {
      timer.abort();
    }
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
