import { type MessagePort, Worker } from 'node:worker_threads';
import { EngineInterruptedError } from '@semblance/engine-api/engine';
import { createThreadGate, endThread } from '@semblance/vision/models/thread-gate';
import { threadEnd } from '../pool/thread-end.ts';
import type { BuiltinSettings } from '../settings.ts';
import { failureOf } from './failures.ts';
import type { Ask, Done, FromThread, StreamThreadOptions, ToThread } from './protocol.ts';

interface Waiting {
  readonly resolve: (result: Done | undefined) => void;
  readonly reject: (error: Error) => void;
  timer: NodeJS.Timeout;
}

export interface ThreadData {
  readonly value: unknown;
  readonly transfer: readonly MessagePort[];
}

export interface StreamThreadEvents {
  readonly settings?: BuiltinSettings | undefined;
  /** Entry file of the thread. */
  readonly entry: URL;
  /** What it needs beside the settings, and the ports therein, which become the thread's. */
  readonly data?: ThreadData | undefined;
  /** Called once when the thread has ended by itself or was given up; not after `end`. */
  readonly onDeath: (error: EngineInterruptedError) => void;
}

/** A worker thread for streams, seen from its process. It does not keep the process alive while it has no request. */
export class StreamThread {
  readonly #worker: Worker;
  readonly #gate = createThreadGate();
  readonly #waiting = new Map<number, Waiting>();
  readonly #events: StreamThreadEvents;
  #nextId = 1;
  #death: EngineInterruptedError | undefined;

  constructor(events: StreamThreadEvents) {
    this.#events = events;
    const { settings, data } = events;
    const workerData: StreamThreadOptions = { gate: this.#gate, settings, data: data?.value };
    this.#worker = new Worker(events.entry, { workerData, transferList: [...(data?.transfer ?? [])] });
    let failure: unknown;
    this.#worker.on('message', (message: FromThread) => this.#receive(message));
    this.#worker.on('error', (error) => {
      failure = error;
    });
    this.#worker.on('exit', (code) => this.#die(threadEnd('a thread of live video', failure, code)));
    this.#worker.unref();
  }

  /** For diagnosis. */
  get threadId(): number {
    return this.#worker.threadId;
  }

  /**
   * @param longestMs time after which a thread without an answer is given up
   * @param transfer memory whose ownership moves to the thread
   * @throws the error of the thread; EngineInterruptedError when it died or was ended
   */
  ask(ask: Ask, longestMs: number, transfer: ArrayBuffer[] = []): Promise<Done | undefined> {
    if (this.#death) return Promise.reject(this.#death);
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#giveUp(longestMs), longestMs);
      this.#waiting.set(id, { resolve, reject, timer });
      this.#worker.ref();
      this.#worker.postMessage({ ...ask, id } satisfies ToThread, transfer);
    });
  }

  /** Limits the remaining time of the running request. */
  hurry(longestMs: number): void {
    for (const waiting of this.#waiting.values()) {
      clearTimeout(waiting.timer);
      waiting.timer = setTimeout(() => this.#giveUp(longestMs), longestMs);
    }
  }

  /** Ends the thread when it runs no network; its request fails. */
  async end(): Promise<void> {
    this.#death ??= new EngineInterruptedError('live video was closed');
    this.#failAll(this.#death);
    await endThread(this.#worker, this.#gate);
  }

  #giveUp(afterMs: number): void {
    const error = new EngineInterruptedError(
      `a thread of live video did not answer within ${afterMs / 1000} s`,
    );
    this.#die(error);
    void endThread(this.#worker, this.#gate);
  }

  #die(error: EngineInterruptedError): void {
    if (this.#death) return;
    this.#death = error;
    this.#failAll(error);
    this.#events.onDeath(error);
  }

  #failAll(error: Error): void {
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject, timer } of all) {
      clearTimeout(timer);
      reject(error);
    }
  }

  #receive(message: FromThread): void {
    const pending = this.#waiting.get(message.id);
    if (!pending) return;
    this.#waiting.delete(message.id);
    clearTimeout(pending.timer);
    if (this.#waiting.size === 0) this.#worker.unref();
    if (message.type === 'done') pending.resolve(message.result);
    else pending.reject(failureOf(message.error));
  }
}
