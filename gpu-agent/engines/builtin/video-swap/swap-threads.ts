import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { FromSwapThread, SwapSource, ToSwapThread } from './swap-protocol.ts';

type Analyse = Extract<ToSwapThread, { type: 'analyse' }>;
type Draw = Extract<ToSwapThread, { type: 'draw' }>;
type Waiting = { readonly resolve: (answer: FromSwapThread) => void; readonly reject: (e: Error) => void };

interface Thread {
  readonly worker: Worker;
  readonly waiting: Map<number, Waiting>;
}

/** More threads than this would wait for the one that follows the faces. */
const MOST_THREADS = 3;

let shared: SwapThreads | undefined;

/**
 * Threads that frames of videos are spread over: one for each core but the one that follows the faces, as far as they
 * have work. Made once for each thread that renders, since a thread is quick only after its first dozens of frames; they
 * keep nothing alive while they wait.
 */
export function swapThreads(): SwapThreads {
  shared ??= new SwapThreads(Math.min(MOST_THREADS, Math.max(1, availableParallelism() - 1)));
  return shared;
}

export class SwapThreads {
  readonly count: number;
  readonly #threads: Thread[] = [];
  readonly #sources = new Map<number, SwapSource>();
  #nextRender = 1;
  #nextJob = 1;

  constructor(count: number) {
    this.count = count;
  }

  /** @returns the number that names this render to the threads */
  begin(source: SwapSource): number {
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

  async analyse(message: Omit<Analyse, 'type' | 'job'>) {
    const job = this.#nextJob++;
    const answer = await this.#ask({ ...message, type: 'analyse', job });
    if (answer.type !== 'texture') throw new Error(`a swap thread answered ${answer.type}`);
    return answer.texture;
  }

  /** Draws into the frame itself, whose memory must be shared. */
  async draw(message: Omit<Draw, 'type' | 'job'>): Promise<void> {
    if (!(message.frame.data.buffer instanceof SharedArrayBuffer))
      throw new TypeError('a frame that only this thread can see');
    const job = this.#nextJob++;
    const answer = await this.#ask({ ...message, type: 'draw', job });
    if (answer.type !== 'drawn') throw new Error(`a swap thread answered ${answer.type}`);
  }

  /** Gives a job to the thread that has the fewest. */
  #ask(message: Analyse | Draw): Promise<FromSwapThread> {
    this.#fill();
    const thread = this.#threads.reduce((a, b) => (b.waiting.size < a.waiting.size ? b : a));
    return new Promise((resolve, reject) => {
      thread.worker.ref();
      thread.waiting.set(message.job, { resolve, reject });
      this.#tell(thread.worker, message);
    });
  }

  /** Starts the threads that lack, and tells them of what is being rendered. */
  #fill(): void {
    while (this.#threads.length < this.count) {
      const thread = this.#start();
      this.#threads.push(thread);
      for (const [render, source] of this.#sources)
        this.#tell(thread.worker, { type: 'begin', render, source });
    }
  }

  #tell(worker: Worker, message: ToSwapThread): void {
    worker.postMessage(message);
  }

  #start(): Thread {
    const worker = new Worker(new URL('./swap-thread.ts', import.meta.url));
    const waiting = new Map<number, Waiting>();
    const thread = { worker, waiting };
    let failure = new Error('a swap thread ended');
    worker.on('message', (answer: FromSwapThread) => {
      const asked = waiting.get(answer.job);
      waiting.delete(answer.job);
      if (waiting.size === 0) worker.unref();
      if (answer.type === 'failed') asked?.reject(new Error(answer.message));
      else asked?.resolve(answer);
    });
    worker.on('error', (error) => {
      failure = error instanceof Error ? error : new Error(String(error));
    });
    worker.on('exit', () => {
      const at = this.#threads.indexOf(thread);
      // What it was asked fails; another takes its place when there is work again.
      if (at >= 0) this.#threads.splice(at, 1);
      for (const asked of waiting.values()) asked.reject(failure);
      waiting.clear();
    });
    worker.unref();
    return thread;
  }
}
