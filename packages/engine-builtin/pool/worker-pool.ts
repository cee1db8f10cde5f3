import { Worker } from 'node:worker_threads';
import { EngineInterruptedError, RenderError, type RenderResult } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { InspectWork, RenderWork } from '@semblance/engine-api/render-work';
import { createThreadGate, endThread, type ThreadGate } from '@semblance/vision/models/thread-gate';
import type { BuiltinSettings } from '../settings.ts';
import type { FromWorker, TaskWork, ToWorker, WorkerFailure, WorkerOptions } from './protocol.ts';
import { threadEnd } from './thread-end.ts';

/** Time in which a cancelled render must stop before its thread is terminated, in ms. */
const CANCEL_GRACE_MS = 500;

export interface WorkerPoolOptions {
  readonly threads: number;
  /** Default: the default of each. */
  readonly settings?: BuiltinSettings | undefined;
  /** Entry file of the threads. */
  readonly entry: URL;
  /** Called for each thread that ended by itself. */
  readonly onCrash: (error: Error) => void;
}

interface Task {
  /** Undefined for a warm-up. */
  readonly work: TaskWork | undefined;
  readonly signal: AbortSignal;
  readonly onProgress: (fraction: number, stage: string) => void;
  readonly resolve: (result: RenderResult | Findings | null) => void;
  readonly reject: (error: unknown) => void;
  settled: boolean;
  onAbort: () => void;
}

interface Slot {
  worker: Worker | undefined;
  /** Gate of this worker. */
  gate: ThreadGate;
  task: Task | undefined;
  id: number;
  cancelled: Int32Array | undefined;
  graceTimer: NodeJS.Timeout | undefined;
}

/**
 * Worker threads that render one job each, in the order of arrival. A thread that dies interrupts only its own job,
 * and another thread replaces it.
 */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #slots: Slot[];
  readonly #queue: Task[] = [];
  #closed = false;
  #nextId = 1;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#slots = Array.from({ length: options.threads }, () => ({
      worker: undefined,
      gate: createThreadGate(),
      task: undefined,
      id: 0,
      cancelled: undefined,
      graceTimer: undefined,
    }));
  }

  /** Ids of the running threads, for diagnosis. */
  get threadIds(): number[] {
    return this.#slots.flatMap((slot) => (slot.worker ? [slot.worker.threadId] : []));
  }

  /** Loads the networks in every thread and runs them once. */
  async warmUp(signal: AbortSignal): Promise<void> {
    const idle = this.#slots.filter((slot) => !slot.task).length;
    await Promise.all(Array.from({ length: idle }, () => this.#submit(undefined, signal, () => undefined)));
  }

  /** Renders a piece of work. Rejects with the signal's reason within a second after it is aborted. */
  async render(
    work: RenderWork,
    signal: AbortSignal,
    onProgress: (fraction: number, stage: string) => void,
  ): Promise<RenderResult> {
    const result = await this.#submit({ type: 'render', work }, signal, onProgress);
    if (!result) throw new Error('worker answered a render without a result');
    return result as RenderResult;
  }

  /** Looks at the pictures of a render. Ends like {@link render} when it is aborted. */
  async inspect(work: InspectWork, signal: AbortSignal): Promise<Findings> {
    const result = await this.#submit({ type: 'inspect', work }, signal, () => undefined);
    if (!result) throw new Error('worker answered an inspection without a result');
    return result as Findings;
  }

  /** Ends all threads. Running and waiting jobs fail. */
  async close(): Promise<void> {
    this.#closed = true;
    const error = engineClosed();
    for (const task of this.#queue.splice(0)) settle(task, () => task.reject(error));
    await Promise.all(
      this.#slots.map(async (slot) => {
        const { task, worker, gate } = slot;
        this.#release(slot);
        slot.worker = undefined;
        if (task) settle(task, () => task.reject(error));
        if (worker) await endThread(worker, gate);
      }),
    );
  }

  #submit(
    work: TaskWork | undefined,
    signal: AbortSignal,
    onProgress: Task['onProgress'],
  ): Promise<RenderResult | Findings | null> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(engineClosed());
      if (signal.aborted) return reject(signal.reason);
      const task: Task = {
        work,
        signal,
        onProgress,
        resolve,
        reject,
        settled: false,
        onAbort: () => this.#abort(task),
      };
      signal.addEventListener('abort', task.onAbort, { once: true });
      this.#queue.push(task);
      this.#dispatch();
    });
  }

  #dispatch(): void {
    for (const slot of this.#slots) {
      if (slot.task) continue;
      const task = this.#queue.shift();
      if (!task) return;
      this.#start(slot, task);
    }
  }

  #start(slot: Slot, task: Task): void {
    slot.worker ??= this.#spawn(slot);
    slot.worker.ref();
    slot.task = task;
    slot.id = this.#nextId++;
    if (!task.work) {
      slot.worker.postMessage({ type: 'warm-up', id: slot.id } satisfies ToWorker);
      return;
    }
    const cancelled = new SharedArrayBuffer(4);
    slot.cancelled = new Int32Array(cancelled);
    slot.worker.postMessage({ ...task.work, id: slot.id, cancelled } satisfies ToWorker);
  }

  #spawn(slot: Slot): Worker {
    slot.gate = createThreadGate();
    const workerData: WorkerOptions = { gate: slot.gate, settings: this.#options.settings };
    const worker = new Worker(this.#options.entry, { workerData });
    let failure: unknown;
    worker.on('message', (message: FromWorker) => this.#receive(slot, worker, message));
    worker.on('error', (error) => {
      failure = error;
    });
    worker.on('exit', (code) => {
      if (slot.worker !== worker) return;
      slot.worker = undefined;
      const { task } = slot;
      this.#release(slot);
      const error = threadEnd('a render thread', failure, code);
      if (!task?.signal.aborted) this.#options.onCrash(error);
      if (task) settle(task, () => task.reject(task.signal.aborted ? task.signal.reason : error));
      if (this.#closed) return;
      this.#dispatch();
      // A thread that died while it warmed up is not warmed up again, to avoid an endless loop.
      if (task?.work && !slot.task) this.#warmUpAgain(slot);
    });
    // An idle thread must not keep the process alive.
    worker.unref();
    return worker;
  }

  /** Warms up the thread that replaces a dead one, so that the next render finds it ready. */
  #warmUpAgain(slot: Slot): void {
    const nothing = () => undefined;
    this.#start(slot, {
      work: undefined,
      signal: new AbortController().signal,
      settled: false,
      onProgress: nothing,
      resolve: nothing,
      reject: nothing,
      onAbort: nothing,
    });
  }

  #receive(slot: Slot, worker: Worker, message: FromWorker): void {
    const { task } = slot;
    if (slot.worker !== worker || !task || message.id !== slot.id) return;
    if (message.type === 'progress') {
      if (!task.signal.aborted) task.onProgress(message.fraction, message.stage);
      return;
    }
    this.#release(slot);
    settle(task, () => {
      if (task.signal.aborted) task.reject(task.signal.reason);
      else if (message.type === 'done') task.resolve(message.result);
      else task.reject(toError(message.error));
    });
    this.#dispatch();
  }

  #abort(task: Task): void {
    const waiting = this.#queue.indexOf(task);
    if (waiting >= 0) {
      this.#queue.splice(waiting, 1);
      settle(task, () => task.reject(task.signal.reason));
      return;
    }
    const slot = this.#slots.find((candidate) => candidate.task === task);
    if (!slot) return;
    if (slot.cancelled) Atomics.store(slot.cancelled, 0, 1);
    slot.worker?.postMessage({ type: 'cancel', id: slot.id } satisfies ToWorker);
    // One long step, such as decoding a huge picture, does not check the flag.
    slot.graceTimer = setTimeout(() => this.#abandon(slot, task), CANCEL_GRACE_MS);
  }

  /**
   * Abandons a thread that did not react to the cancellation and replaces it at once. It runs no more JavaScript of
   * the render, so it writes nothing, but it ends only when its native call returns.
   */
  #abandon(slot: Slot, task: Task): void {
    const { worker, gate } = slot;
    this.#release(slot);
    slot.worker = undefined;
    if (worker) void endThread(worker, gate);
    settle(task, () => task.reject(task.signal.reason));
    this.#dispatch();
  }

  #release(slot: Slot): void {
    clearTimeout(slot.graceTimer);
    slot.graceTimer = undefined;
    slot.worker?.unref();
    slot.task = undefined;
    slot.cancelled = undefined;
  }
}

const engineClosed = () => new EngineInterruptedError('the engine was closed');

function settle(task: Task, finish: () => void): void {
  if (task.settled) return;
  task.settled = true;
  task.signal.removeEventListener('abort', task.onAbort);
  finish();
}

function toError(failure: WorkerFailure): Error {
  if (failure.code === 'engine_interrupted') return new EngineInterruptedError(failure.message);
  if (failure.code && failure.code !== 'cancelled')
    return new RenderError(failure.code, failure.message, { findings: failure.findings });
  const error = new Error(failure.message);
  if (failure.stack) error.stack = failure.stack;
  return error;
}
