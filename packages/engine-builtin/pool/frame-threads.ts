import { availableParallelism } from 'node:os';
import { type MessagePort, Worker } from 'node:worker_threads';
import { createThreadGate, endThread, type ThreadGate } from '@semblance/vision/models/thread-gate';
import { threadEnd } from './thread-end.ts';

/** Messages to a frame thread: the source of a render, and pieces of its work. */
export type ToFrameThread<Source, Work> =
  | { readonly type: 'begin'; readonly render: number; readonly source: Source }
  | { readonly type: 'end'; readonly render: number }
  | { readonly type: 'work'; readonly job: number; readonly render: number; readonly work: Work };

export type FromFrameThread<Answer> =
  | { readonly type: 'done'; readonly job: number; readonly answer: Answer }
  | { readonly type: 'failed'; readonly job: number; readonly message: string };

/** Largest number of threads. Further threads would wait for the thread that gives them work, or for the encoder. */
const MAX_THREADS = 3;

/** Returns the number of frame threads: one for each core except that of the caller, up to MAX_THREADS. */
function frameThreadCount(): number {
  return Math.min(MAX_THREADS, Math.max(1, availableParallelism() - 1));
}

/** What a thread gets when it starts. */
export interface ThreadData {
  readonly value: object;
  readonly transfer: readonly MessagePort[];
}

interface Waiting<Answer> {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
}

interface Thread<Answer> {
  readonly worker: Worker;
  readonly gate: ThreadGate | undefined;
  readonly waiting: Map<number, Waiting<Answer>>;
}

/**
 * Threads that share the frames of videos; their entry file calls `serveFrames`. They stay alive between renders,
 * because a thread is fast only after some dozens of frames, but do not keep the process alive while idle. When a
 * thread dies, its requests fail with an EngineInterruptedError and another thread replaces it.
 */
export class FrameThreads<Source, Work, Answer> {
  readonly count: number;
  readonly #entry: URL;
  readonly #data: (() => ThreadData) | undefined;
  readonly #threads: Thread<Answer>[] = [];
  readonly #sources = new Map<number, Source>();
  #nextRender = 1;
  #nextJob = 1;

  /**
   * @param data returns the `workerData` of one more thread. With it, threads may run networks: it also gets the gate
   * of the thread, through which `close` ends it
   */
  constructor(entry: URL, count = frameThreadCount(), data?: () => ThreadData) {
    this.#entry = entry;
    this.count = count;
    this.#data = data;
  }

  /** @returns the number by which the threads know this render */
  begin(source: Source): number {
    const render = this.#nextRender++;
    this.#sources.set(render, source);
    for (const { worker } of this.#threads) this.#tell(worker, { type: 'begin', render, source });
    this.#fill();
    return render;
  }

  end(render: number): void {
    this.#sources.delete(render);
    for (const { worker } of this.#threads) this.#tell(worker, { type: 'end', render });
  }

  /**
   * Gives a piece of work to the thread with the fewest requests.
   * @param transfer memory whose ownership moves to the thread
   */
  ask(render: number, work: Work, transfer: ArrayBuffer[] = []): Promise<Answer> {
    this.#fill();
    const { worker, waiting } = this.#threads.reduce((a, b) => (b.waiting.size < a.waiting.size ? b : a));
    const job = this.#nextJob++;
    return new Promise((resolve, reject) => {
      worker.ref();
      waiting.set(job, { resolve, reject });
      this.#tell(worker, { type: 'work', job, render, work }, transfer);
    });
  }

  /** Ends the threads. Work that is not finished fails. */
  async close(): Promise<void> {
    await Promise.all(
      this.#threads.map(({ worker, gate }) => (gate ? endThread(worker, gate) : worker.terminate())),
    );
  }

  /** Starts missing threads and sends them the sources of the current renders. */
  #fill(): void {
    while (this.#threads.length < this.count) {
      const thread = this.#start();
      this.#threads.push(thread);
      for (const [render, source] of this.#sources)
        this.#tell(thread.worker, { type: 'begin', render, source });
    }
  }

  #tell(worker: Worker, message: ToFrameThread<Source, Work>, transfer: ArrayBuffer[] = []): void {
    worker.postMessage(message, transfer);
  }

  #start(): Thread<Answer> {
    const given = this.#data?.();
    const gate = given && createThreadGate();
    const worker = given
      ? new Worker(this.#entry, { workerData: { ...given.value, gate }, transferList: [...given.transfer] })
      : new Worker(this.#entry);
    const waiting = new Map<number, Waiting<Answer>>();
    const thread = { worker, gate, waiting };
    let failure: unknown;
    worker.on('message', (message: FromFrameThread<Answer>) => {
      const pending = waiting.get(message.job);
      waiting.delete(message.job);
      if (waiting.size === 0) worker.unref();
      if (message.type === 'failed') pending?.reject(new Error(message.message));
      else pending?.resolve(message.answer);
    });
    worker.on('error', (error) => {
      failure = error;
      // The engine process has no logger: the agent logs what the process prints.
      console.warn('a thread that works on frames ended and will be replaced', error);
    });
    worker.on('exit', (code) => {
      const at = this.#threads.indexOf(thread);
      if (at >= 0) this.#threads.splice(at, 1);
      const end = threadEnd('a thread that works on frames', failure, code);
      for (const pending of waiting.values()) pending.reject(end);
      waiting.clear();
    });
    worker.unref();
    return thread;
  }
}
