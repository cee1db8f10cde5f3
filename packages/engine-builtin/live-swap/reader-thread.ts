import { Worker } from 'node:worker_threads';
import { EngineInterruptedError } from '@semblance/engine-api/engine';
import { threadEnd } from '../pool/thread-end.ts';
import { failureOf } from './failures.ts';
import type { Pixels } from './picture-codec.ts';
import type { FromReader, ToReader } from './reader-protocol.ts';

/** Longest time of one picture before the thread is given up, in ms. */
const LONGEST_MS = 10_000;

interface Waiting {
  readonly resolve: (answer: FromReader) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

/** Threads without a stream. They are kept, because threads with WebAssembly that end may crash Node.js 24. */
const idle: ReaderThread[] = [];

/** Decodes the pictures of one stream. */
export type ThreadReader = Pick<ReaderThread, 'read'> & { close(): Promise<void> };

/** Returns a thread for one stream, which must be closed. */
export function takeReaderThread(): ThreadReader {
  const thread = idle.pop() ?? new ReaderThread();
  return {
    read: (picture) => thread.read(picture),
    async close() {
      if (await thread.close()) idle.push(thread);
    },
  };
}

export interface ReaderThreadOptions {
  /** Entry file of the thread, and the longest time of a picture in ms, for tests. */
  readonly entry?: URL;
  readonly longestMs?: number;
}

/**
 * Decodes the pictures of one stream at a time, for streams that are in no thread of their own. It does not keep the
 * process alive while it has no picture.
 */
export class ReaderThread {
  readonly #worker: Worker;
  readonly #longestMs: number;
  #waiting: Waiting | undefined;
  #death: EngineInterruptedError | undefined;

  constructor({ entry, longestMs = LONGEST_MS }: ReaderThreadOptions = {}) {
    this.#longestMs = longestMs;
    this.#worker = new Worker(entry ?? new URL('./reader-thread-main.ts', import.meta.url));
    let failure: unknown;
    this.#worker.on('message', (answer: FromReader) => this.#settle()?.resolve(answer));
    this.#worker.on('error', (error) => {
      failure = error;
    });
    this.#worker.on('exit', (code) => this.#die(threadEnd('a thread that decodes pictures', failure, code)));
    this.#worker.unref();
  }

  /**
   * Decodes one picture; the one before must be done.
   * @throws as `PictureReader.read`; EngineInterruptedError when the thread died or hung, and can decode no more
   */
  async read(picture: Uint8Array): Promise<Pixels> {
    // A copy, because the picture may be a part of a larger buffer.
    const own = new Uint8Array(picture);
    const answer = await this.#ask({ type: 'picture', picture: own }, [own.buffer]);
    if (answer.type === 'failed') throw failureOf(answer.error);
    if (answer.type === 'closed') throw new Error('a picture was answered without pixels');
    return answer.pixels;
  }

  /** Forgets the stream, when its picture is done. @returns whether the thread can take another one */
  async close(): Promise<boolean> {
    const answer = await this.#ask({ type: 'close' }).catch(() => undefined);
    return answer?.type === 'closed';
  }

  #ask(message: ToReader, transfer: ArrayBuffer[] = []): Promise<FromReader> {
    if (this.#death) return Promise.reject(this.#death);
    if (this.#waiting) return Promise.reject(new Error('two pictures at once'));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#giveUp(), this.#longestMs);
      this.#waiting = { resolve, reject, timer };
      this.#worker.ref();
      this.#worker.postMessage(message, transfer);
    });
  }

  #giveUp(): void {
    const seconds = this.#longestMs / 1000;
    this.#die(
      new EngineInterruptedError(`a thread that decodes pictures did not answer within ${seconds} s`),
    );
    void this.#worker.terminate();
  }

  #die(error: EngineInterruptedError): void {
    this.#death ??= error;
    this.#settle()?.reject(this.#death);
  }

  #settle(): Waiting | undefined {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    clearTimeout(waiting?.timer);
    this.#worker.unref();
    return waiting;
  }
}
