import { Worker } from 'node:worker_threads';
import { describeError } from '@semblance/common/errors';
import { deviceFaultOf } from '@semblance/engine-api/device-fault';
import { createThreadGate, endThread, type ThreadGate } from '@semblance/vision/models/thread-gate';
import { misfit } from '../contracts/fit.ts';
import type { CheckedModel } from '../model-dir.ts';
import { itemsOf, itemsOfRun, join, pad, paddedSize, split } from './batch.ts';
import type { FirstRun, FloatTensors, FromSession, Provider, ThreadOptions, ToSession } from './protocol.ts';

export interface SessionPoolOptions {
  readonly models: readonly CheckedModel[];
  readonly providers: readonly Provider[];
  /** Numbers of the GPUs; each gets a thread with all models. On the CPU there is one thread. */
  readonly devices: readonly number[];
  /** Number of threads of one run on the CPU. */
  readonly threads: number;
  /** As in {@link ThreadOptions}. */
  readonly sizes?: readonly number[];
  /**
   * Called when nothing can run any more although nobody closed the pool: no thread is left, or a device has a
   * fault.
   */
  readonly onEnd?: (reason: string) => void;
}

/** The sessions could not be opened, or a model does not do what its contract says; the message names the model. */
class SessionError extends Error {
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
  /** The running requests; several when they were combined. */
  running: readonly Request[];
  /** Number of items of the run that nobody asked for. */
  padding: number;
}

/**
 * Runs models on the devices of this process, in the order of arrival, on any free device. Waiting requests for the
 * same model are combined into one run when its contract has a batch.
 */
export class SessionPool {
  readonly #options: SessionPoolOptions;
  readonly #models: ReadonlyMap<string, CheckedModel>;
  readonly #devices: Device[] = [];
  readonly #queue: Request[] = [];
  /** Numbers of items that runs of a model have, ascending from 1; any for models that are not here. */
  readonly #sizes = new Map<string, readonly number[]>();
  #closed = false;
  /** Number of runs, and of the requests that they answered, for diagnosis. */
  readonly counts = { runs: 0, requests: 0 };

  private constructor(options: SessionPoolOptions) {
    this.#options = options;
    this.#models = new Map(options.models.map((model) => [model.name, model]));
  }

  /**
   * Loads every model on every device and runs it once; where its file leaves the number of items open, with each
   * number that runs will have.
   * @returns the pool, the provider of each model, and messages for the owner
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
        // Without a GPU all devices are the same CPU.
        if (started.runs.every(({ provider }) => provider === 'cpu')) break;
      }
      const [first] = opened;
      if (!first) throw new SessionError('no device is configured');
      pool.#checkShapes(first.runs);
      const limits = pool.#limit(opened.flatMap(({ runs }) => runs));
      return { pool, runs: first.runs, notes: [...first.notes, ...limits] };
    } catch (error) {
      await pool.close();
      throw error;
    }
  }

  /** Runs a model; inputs and outputs are named by role. The buffers of the inputs are transferred. */
  run(model: string, feeds: FloatTensors, signal?: AbortSignal): Promise<FloatTensors> {
    const { promise, resolve, reject } = Promise.withResolvers<FloatTensors>();
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#closed) return Promise.reject(new SessionError('the sessions are closed'));
    const request: Request = { model, feeds, resolve, reject };
    const onAbort = () => {
      const at = this.#queue.indexOf(request);
      if (at >= 0) this.#queue.splice(at, 1);
      // A running request continues, and its answer is dropped.
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
    const { models, providers, threads, sizes } = this.#options;
    const gate = createThreadGate();
    const workerData: ThreadOptions = {
      gate,
      models: models.map(({ name, path, inputs, outputs, batch, contract }) => ({
        name,
        path,
        inputs,
        outputs,
        batch,
        edit: contract.edit,
      })),
      providers,
      device,
      threads,
      ...(sizes ? { sizes } : {}),
    };
    const worker = new Worker(new URL('./session-thread.ts', import.meta.url), { workerData });
    const entry: Device = { worker, gate, running: [], padding: 0 };
    this.#devices.push(entry);
    const { promise, resolve, reject } = Promise.withResolvers<{
      runs: readonly FirstRun[];
      notes: readonly string[];
    }>();
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    worker.on('message', (message: FromSession) => {
      if (message.type === 'ready') {
        // An idle thread must not keep the process alive.
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

  /** Keeps to the numbers of items that all devices ran. @returns messages about models that run fewer */
  #limit(runs: readonly FirstRun[]): string[] {
    const notes = new Map<string, string>();
    for (const { model, alone, sizes: ran, full } of runs) {
      const sizes = alone === undefined ? ran : [1];
      if (!sizes) continue;
      const before = this.#sizes.get(model);
      this.#sizes.set(model, before ? sizes.filter((size) => before.includes(size)) : sizes);
      if (alone !== undefined)
        notes.set(
          model,
          `${model} is given one item at a time: its file leaves their number open, but with several it failed: ${alone}`,
        );
      else if (full !== undefined)
        notes.set(
          model,
          `${model} is given at most ${sizes.at(-1)} at a time: with more, the device was full: ${full}`,
        );
    }
    return [...notes.values()];
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

  /** Takes the requests from the queue that fit into the same run. */
  #companions(first: Request): Request[] {
    const companions: Request[] = [];
    if (!this.#models.get(first.model)?.batch) return companions;
    const rest = this.#queue.filter(({ model }) => model === first.model);
    let items = itemsOf(first.feeds);
    const waiting = rest.reduce((sum, { feeds }) => sum + itemsOf(feeds), items);
    const most = itemsOfRun(waiting, this.#sizes.get(first.model));
    for (const other of rest) {
      if (items + itemsOf(other.feeds) > most) break;
      this.#queue.splice(this.#queue.indexOf(other), 1);
      companions.push(other);
      items += itemsOf(other.feeds);
    }
    return companions;
  }

  #send(device: Device, requests: readonly Request[]): void {
    const [first] = requests;
    if (!first) return;
    device.running = requests;
    this.counts.runs++;
    this.counts.requests += requests.length;
    const joined = requests.length === 1 ? first.feeds : join(requests.map((request) => request.feeds));
    const items = itemsOf(joined);
    device.padding = requests.length === 1 ? 0 : paddedSize(items, this.#sizes.get(first.model)) - items;
    const feeds = pad(joined, items + device.padding);
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
    const fail = (reason: string): void => {
      const error = new SessionError(`${requests[0]?.model ?? 'a model'} failed: ${reason}`);
      for (const request of requests) request.reject(error);
      // After a device error a process can compute nothing, or nothing correct.
      if (deviceFaultOf(reason)) this.#options.onEnd?.(error.message);
    };
    if (message.type === 'failed') fail(message.message);
    else if (requests.length === 1) requests[0]?.resolve(message.outputs);
    else {
      try {
        const parts = split(
          message.outputs,
          requests.map(({ feeds }) => itemsOf(feeds)),
          device.padding,
        );
        for (const [i, request] of requests.entries()) request.resolve(parts[i] as FloatTensors);
      } catch (error) {
        fail(describeError(error));
      }
    }
    this.#dispatch();
  }

  #failAll(error: Error): void {
    for (const request of this.#queue.splice(0)) request.reject(error);
    for (const device of this.#devices) {
      for (const request of device.running) request.reject(error);
    }
  }
}
