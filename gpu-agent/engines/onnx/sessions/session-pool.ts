import { Worker } from 'node:worker_threads';
import { deviceFaultOf } from '../../device-fault.ts';
import { createThreadGate, endThread, type ThreadGate } from '../../models/thread-gate.ts';
import { misfit } from '../contracts/fit.ts';
import type { CheckedModel } from '../model-dir.ts';
import type {
  FirstRun,
  FloatTensor,
  FloatTensors,
  FromSession,
  Provider,
  ThreadOptions,
  ToSession,
} from './protocol.ts';

/** Items that go into one run at most, where a model takes several. */
const MAX_BATCH = 8;

export interface SessionPoolOptions {
  readonly models: readonly CheckedModel[];
  readonly providers: readonly Provider[];
  /** Numbers of the GPUs; each gets its own thread with all models. On the CPU there is one thread. */
  readonly devices: readonly number[];
  /** Threads that one run on the CPU uses. */
  readonly threads: number;
  readonly maxBatch?: number;
  /** Told when nothing can be run any more although nobody closed the pool: no thread is left, or a device has a fault. */
  readonly onEnd?: (reason: string) => void;
}

/** The sessions could not be opened, or a model does not do what its contract says; the message names which. */
export class SessionError extends Error {
  override readonly name = 'SessionError';
}

interface Request {
  readonly model: string;
  readonly feeds: FloatTensors;
  readonly resolve: (outputs: FloatTensors) => void;
  readonly reject: (error: unknown) => void;
}

interface Device {
  readonly worker: Worker;
  readonly gate: ThreadGate;
  /** What runs now; several requests when they were put together. */
  running: readonly Request[];
}

/**
 * Runs models on the devices of this process, first come first served, whichever is free. Requests that wait for the
 * same model go into one run when its contract has a batch.
 */
export class SessionPool {
  readonly #options: SessionPoolOptions;
  readonly #models: ReadonlyMap<string, CheckedModel>;
  readonly #devices: Device[] = [];
  readonly #queue: Request[] = [];
  #closed = false;
  /** Runs made and requests they answered, for diagnosis. */
  readonly counts = { runs: 0, requests: 0 };

  private constructor(options: SessionPoolOptions) {
    this.#options = options;
    this.#models = new Map(options.models.map((model) => [model.name, model]));
  }

  /**
   * Loads every model on every device and runs it once.
   * @returns the pool, which provider runs each model, and what the owner should know
   * @throws SessionError, or the signal's reason
   */
  static async open(
    options: SessionPoolOptions,
    signal: AbortSignal,
  ): Promise<{ pool: SessionPool; runs: readonly FirstRun[]; notes: readonly string[] }> {
    const pool = new SessionPool(options);
    const onlyCpu = options.providers.every((provider) => provider === 'cpu');
    const devices = onlyCpu ? [0] : options.devices;
    try {
      const opened: { runs: readonly FirstRun[]; notes: readonly string[] }[] = [];
      for (const device of devices) {
        signal.throwIfAborted();
        const started = await pool.#start(device, signal);
        opened.push(started);
        // Without a GPU all devices are the one CPU.
        if (started.runs.every(({ provider }) => provider === 'cpu')) break;
      }
      const [first] = opened;
      if (!first) throw new SessionError('no device is configured');
      pool.#checkShapes(first.runs);
      return { pool, runs: first.runs, notes: first.notes };
    } catch (error) {
      await pool.close();
      throw error;
    }
  }

  /** Runs a model; feeds and outputs are named by role. Buffers of feeds are given away. */
  run(model: string, feeds: FloatTensors, signal?: AbortSignal): Promise<FloatTensors> {
    const { promise, resolve, reject } = Promise.withResolvers<FloatTensors>();
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#closed) return Promise.reject(new SessionError('the sessions are closed'));
    const request: Request = { model, feeds, resolve, reject };
    const onAbort = () => {
      const at = this.#queue.indexOf(request);
      if (at >= 0) this.#queue.splice(at, 1);
      // One that runs is let run: its answer is thrown away.
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#queue.push(request);
    this.#dispatch();
    return promise.finally(() => signal?.removeEventListener('abort', onAbort));
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#failAll(new SessionError('the sessions are closed'));
    await Promise.all(this.#devices.splice(0).map(({ worker, gate }) => endThread(worker, gate)));
  }

  #start(
    device: number,
    signal: AbortSignal,
  ): Promise<{ runs: readonly FirstRun[]; notes: readonly string[] }> {
    const { models, providers, threads } = this.#options;
    const gate = createThreadGate();
    const workerData: ThreadOptions = {
      gate,
      models: models.map(({ name, path, inputs, outputs }) => ({ name, path, inputs, outputs })),
      providers,
      device,
      threads,
    };
    const worker = new Worker(new URL('./session-thread.ts', import.meta.url), { workerData });
    const entry: Device = { worker, gate, running: [] };
    this.#devices.push(entry);
    const { promise, resolve, reject } = Promise.withResolvers<{
      runs: readonly FirstRun[];
      notes: readonly string[];
    }>();
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    worker.on('message', (message: FromSession) => {
      if (message.type === 'ready') {
        // Only a thread with work keeps the process alive.
        worker.unref();
        resolve(message);
      } else if (message.type === 'unusable') reject(new SessionError(message.message));
      else this.#receive(entry, message);
    });
    const onEnd = (error: Error) => {
      reject(error);
      const at = this.#devices.indexOf(entry);
      if (at >= 0) this.#devices.splice(at, 1);
      for (const request of entry.running) request.reject(error);
      if (this.#devices.length > 0 || this.#closed) return;
      this.#failAll(error);
      this.#options.onEnd?.(error.message);
    };
    worker.on('error', (error) => onEnd(error as Error));
    worker.on('exit', (code) => onEnd(new SessionError(`a session thread ended with code ${code}`)));
    return promise.finally(() => signal.removeEventListener('abort', onAbort));
  }

  #checkShapes(runs: readonly FirstRun[]): void {
    const faults: string[] = [];
    for (const { model: name, shapes } of runs) {
      const model = this.#models.get(name);
      if (!model) continue;
      const specs = model.contract.tensors(model.options, model.summary).outputs;
      for (const output of model.outputs) {
        const spec = specs.find((candidate) => candidate.name === output.role);
        const fault = misfit(output, shapes[output.role] ?? [], spec);
        if (fault) faults.push(`${name} (${model.file}): ${fault}`);
      }
    }
    if (faults.length > 0)
      throw new SessionError(`models do not do what their contract says:\n  ${faults.join('\n  ')}`);
  }

  #dispatch(): void {
    for (const device of this.#devices) {
      if (device.running.length > 0) continue;
      const first = this.#queue.shift();
      if (!first) return;
      this.#send(device, [first, ...this.#companions(first)]);
    }
    if (this.#devices.length === 0) this.#failAll(new SessionError('no session thread is left'));
  }

  /** Takes from the queue what can go into the same run. */
  #companions(first: Request): Request[] {
    const model = this.#models.get(first.model);
    const most = this.#options.maxBatch ?? MAX_BATCH;
    const companions: Request[] = [];
    if (!model?.batch) return companions;
    let items = batchOf(first.feeds);
    for (let i = 0; i < this.#queue.length && items < most; ) {
      const other = this.#queue[i] as Request;
      if (other.model === first.model && items + batchOf(other.feeds) <= most) {
        this.#queue.splice(i, 1);
        companions.push(other);
        items += batchOf(other.feeds);
      } else i++;
    }
    return companions;
  }

  #send(device: Device, requests: readonly Request[]): void {
    const [first] = requests;
    if (!first) return;
    device.running = requests;
    this.counts.runs++;
    this.counts.requests += requests.length;
    const feeds = requests.length === 1 ? first.feeds : join(requests.map((request) => request.feeds));
    device.worker.ref();
    const message: ToSession = { id: 0, model: first.model, feeds };
    device.worker.postMessage(
      message,
      Object.values(feeds).map(({ data }) => data.buffer),
    );
  }

  #receive(device: Device, message: Extract<FromSession, { type: 'done' | 'failed' }>): void {
    const requests = device.running;
    device.running = [];
    device.worker.unref();
    if (message.type === 'failed') {
      const error = new SessionError(`${requests[0]?.model ?? 'a model'} failed: ${message.message}`);
      for (const request of requests) request.reject(error);
      // After an error of its device a process can make nothing any more, or nothing right.
      if (deviceFaultOf(message.message)) this.#options.onEnd?.(error.message);
    } else if (requests.length === 1) requests[0]?.resolve(message.outputs);
    else split(message.outputs, requests);
    this.#dispatch();
  }

  #failAll(error: Error): void {
    for (const request of this.#queue.splice(0)) request.reject(error);
    for (const device of this.#devices) {
      for (const request of device.running) request.reject(error);
    }
  }
}

function batchOf(feeds: FloatTensors): number {
  return Object.values(feeds)[0]?.dims[0] ?? 1;
}

/** Puts the items of several requests one behind the other. */
function join(all: readonly FloatTensors[]): FloatTensors {
  const [first] = all;
  return Object.fromEntries(
    Object.keys(first ?? {}).map((role): [string, FloatTensor] => {
      const parts = all.map((feeds) => feeds[role] as FloatTensor);
      const data = new Float32Array(parts.reduce((sum, part) => sum + part.data.length, 0));
      let at = 0;
      for (const part of parts) {
        data.set(part.data, at);
        at += part.data.length;
      }
      const items = parts.reduce((sum, part) => sum + (part.dims[0] ?? 1), 0);
      return [role, { data, dims: [items, ...(parts[0]?.dims.slice(1) ?? [])] }];
    }),
  );
}

/** Gives each request its own items of what a joint run made. */
function split(outputs: FloatTensors, requests: readonly Request[]): void {
  const total = requests.reduce((sum, request) => sum + batchOf(request.feeds), 0);
  let from = 0;
  for (const request of requests) {
    const items = batchOf(request.feeds);
    request.resolve(
      Object.fromEntries(
        Object.entries(outputs).map(([role, { data, dims }]): [string, FloatTensor] => {
          const each = data.length / total;
          return [
            role,
            { data: data.slice(from * each, (from + items) * each), dims: [items, ...dims.slice(1)] },
          ];
        }),
      ),
    );
    from += items;
  }
}
