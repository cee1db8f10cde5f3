import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { FromDrawThread, SentFrame, ToDrawThread } from './draw-protocol.ts';
import type { PortraitData, Pose } from './portrait.ts';

/** More would wait for the encoder. */
const MOST_THREADS = 3;

interface Waiting {
  readonly resolve: (frame: SentFrame) => void;
  readonly reject: (error: Error) => void;
}

interface Thread {
  readonly worker: Worker;
  readonly waiting: Map<number, Waiting>;
}

let shared: DrawThreads | undefined;

/**
 * Threads that draw portraits while another follows a driver. Made once, since a thread is quick only after its first
 * dozens of frames; they keep nothing alive while they wait.
 */
export function drawThreads(): DrawThreads {
  shared ??= new DrawThreads(Math.min(MOST_THREADS, Math.max(1, availableParallelism() - 1)));
  return shared;
}

export class DrawThreads {
  readonly count: number;
  readonly #threads: Thread[] = [];
  readonly #portraits = new Map<number, PortraitData>();
  #nextRender = 1;
  #nextJob = 1;

  constructor(count: number) {
    this.count = count;
  }

  /** @returns the number that names this portrait to the threads */
  begin(portrait: PortraitData): number {
    const render = this.#nextRender++;
    this.#portraits.set(render, portrait);
    for (const { worker } of this.#threads) tell(worker, { type: 'begin', render, portrait });
    this.#fill();
    return render;
  }

  end(render: number): void {
    this.#portraits.delete(render);
    for (const { worker } of this.#threads) tell(worker, { type: 'end', render });
  }

  /**
   * Draws in the thread that has the least to do.
   * @param into a frame drawn before of the same portrait, whose memory is given away
   */
  draw(render: number, pose: Pose, into: SentFrame | undefined): Promise<SentFrame> {
    this.#fill();
    const thread = this.#threads.reduce((a, b) => (b.waiting.size < a.waiting.size ? b : a));
    const job = this.#nextJob++;
    return new Promise((resolve, reject) => {
      thread.worker.ref();
      thread.waiting.set(job, { resolve, reject });
      tell(thread.worker, { type: 'draw', job, render, pose, into }, into ? [into.buffer] : []);
    });
  }

  /** Ends the threads; what they have not drawn fails. */
  async close(): Promise<void> {
    await Promise.all(this.#threads.map(({ worker }) => worker.terminate()));
  }

  /** Starts the threads that lack, and tells them of what is being rendered. */
  #fill(): void {
    while (this.#threads.length < this.count) {
      const thread = this.#start();
      this.#threads.push(thread);
      for (const [render, portrait] of this.#portraits)
        tell(thread.worker, { type: 'begin', render, portrait });
    }
  }

  #start(): Thread {
    const worker = new Worker(new URL('./draw-thread.ts', import.meta.url));
    const waiting = new Map<number, Waiting>();
    const thread = { worker, waiting };
    let failure = new Error('a thread that draws ended');
    worker.on('message', (answer: FromDrawThread) => {
      const asked = waiting.get(answer.job);
      waiting.delete(answer.job);
      if (waiting.size === 0) worker.unref();
      if (answer.type === 'failed') asked?.reject(new Error(answer.message));
      else asked?.resolve(answer.frame);
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

function tell(worker: Worker, message: ToDrawThread, transfer: ArrayBuffer[] = []): void {
  worker.postMessage(message, transfer);
}
