import { Worker } from 'node:worker_threads';
import { backoffMs } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { Standstill } from '@semblance/common/standstill';
import { LiveThreadError } from '@semblance/engine-api/live-engine';
import type { FloatTensor } from '@semblance/engine-onnx/sessions/protocol';
import type { ModelVoices } from '@semblance/voice/rvc/model-voices';
import { SharedChunk } from './shared-chunk.ts';
import type { FromVoiceThread, RvcStreamOptions, ToVoiceThread } from './voice-protocol.ts';

const HUNG_MS = 10_000;
/** Lifetime from which the end of a thread does not count as a failed start, in ms. */
const STEADY_MS = 60_000;
const LONGEST_PAUSE_MS = 30_000;

export interface VoiceThreadsOptions {
  readonly threads: number;
  readonly streamsPerThread: number;
  readonly logger: Logger;
  /** Called when a thread became warm or has ended. */
  readonly onChange: () => void;
  readonly onCrash: () => void;
  /** Entry file of the threads. */
  readonly entry?: URL;
  /** Time without an answer after which a thread counts as hung and is ended, in ms. */
  readonly hungMs?: number;
  /** Returns the pause before a thread is replaced after this many consecutive failures, in ms. */
  readonly restartDelayMs?: (failures: number) => number;
}

/** One stream in a thread. */
export interface VoiceThreadStream {
  /**
   * Returns as many samples as it is given, at most `mostSamples`. One call at a time.
   * @throws LiveThreadError
   */
  convert(samples: Uint8Array): Promise<Uint8Array>;
  close(): void;
}

/** Requirements of a stream that its threads must meet. */
export interface StreamNeeds {
  /** Most samples that the stream converts at once. */
  readonly mostSamples: number;
  /** Called when the thread of the stream ends. */
  readonly onEnd: (error: Error) => void;
  /** Runs the models with which the stream speaks. */
  readonly run?: ModelVoices['run'] | undefined;
}

interface Asked {
  /** Time at which the thread last had nothing to wait for. */
  at: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

interface Stream extends StreamNeeds {
  readonly id: number;
  /** Aborts the model runs of the stream. */
  readonly ending: AbortController;
  /** Number of runs under way. */
  runs: number;
  asked: Asked | undefined;
}

interface Thread {
  readonly worker: Worker;
  readonly streams: Map<number, Stream>;
  warm: boolean;
  readonly startedAt: number;
}

/**
 * Threads that convert many streams each, with the voices of models. A thread that ends loses only its own streams
 * and is replaced.
 */
export class VoiceThreads {
  readonly #options: VoiceThreadsOptions;
  readonly #threads = new Set<Thread>();
  /** Timers of the pauses before threads are started again. */
  readonly #pauses = new Set<NodeJS.Timeout>();
  #failures = 0;
  #look: NodeJS.Timeout | undefined;
  #nextStream = 1;
  #closed = false;
  #waiting: (() => void)[] = [];

  constructor(options: VoiceThreadsOptions) {
    this.#options = options;
  }

  /** Most streams that the warm threads hold. */
  get capacity(): number {
    return this.#options.streamsPerThread * [...this.#threads].filter(({ warm }) => warm).length;
  }

  get warming(): boolean {
    return !this.#closed && [...this.#threads].filter(({ warm }) => warm).length < this.#options.threads;
  }

  get streams(): number {
    return [...this.#threads].reduce((sum, { streams }) => sum + streams.size, 0);
  }

  /** Ids of the running threads, for diagnosis. */
  get threadIds(): number[] {
    return [...this.#threads].map(({ worker }) => worker.threadId);
  }

  /**
   * Starts the threads; resolves when all are warm.
   * @throws the signal's reason
   */
  warmUp(signal: AbortSignal): Promise<void> {
    while (this.#threads.size + this.#pauses.size < this.#options.threads) this.#start();
    return new Promise((resolve, reject) => {
      const onAbort = () => reject(signal.reason);
      if (signal.aborted) return onAbort();
      signal.addEventListener('abort', onAbort, { once: true });
      const check = () => {
        if (this.warming) return void this.#waiting.push(check);
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      check();
    });
  }

  /**
   * Opens a stream in the thread with the fewest streams.
   * @throws LiveThreadError when no thread is warm, or when the thread ends
   */
  async open(options: RvcStreamOptions, needs: StreamNeeds): Promise<VoiceThreadStream> {
    const thread = [...this.#threads]
      .filter(({ warm }) => warm)
      .reduce<Thread | undefined>((a, b) => (a && a.streams.size <= b.streams.size ? a : b), undefined);
    if (!thread) throw new LiveThreadError('no voice thread is warm');
    const ending = new AbortController();
    const stream: Stream = { ...needs, id: this.#nextStream++, ending, runs: 0, asked: undefined };
    thread.streams.set(stream.id, stream);
    this.#watch();
    const close = () => {
      if (!thread.streams.delete(stream.id)) return;
      const closed = new LiveThreadError('the stream was closed');
      stream.asked?.reject(closed);
      stream.asked = undefined;
      ending.abort(closed);
      this.#tell(thread, { type: 'close', stream: stream.id });
      this.#watch();
    };
    const chunk = new SharedChunk(needs.mostSamples);
    try {
      await this.#ask(thread, stream, { type: 'open', stream: stream.id, options, chunk: chunk.memory });
    } catch (error) {
      close();
      throw error;
    }
    return {
      convert: async (samples) => {
        chunk.putBytes(samples);
        await this.#ask(thread, stream, stream.id);
        return chunk.takeBytes();
      },
      close,
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const pause of this.#pauses) clearTimeout(pause);
    this.#pauses.clear();
    await Promise.all([...this.#threads].map(({ worker }) => worker.terminate()));
    for (const check of this.#waiting.splice(0)) check();
  }

  #ask(thread: Thread, stream: Stream, message: ToVoiceThread): Promise<void> {
    return new Promise((resolve, reject) => {
      if (!thread.streams.has(stream.id)) return reject(new LiveThreadError('the voice thread has ended'));
      stream.asked = { at: performance.now(), resolve, reject };
      this.#tell(thread, message);
    });
  }

  #tell(thread: Thread, message: ToVoiceThread, transfer: ArrayBuffer[] = []): void {
    thread.worker.postMessage(message, transfer);
  }

  #start(): void {
    const worker = new Worker(this.#options.entry ?? new URL('./voice-thread.ts', import.meta.url));
    const thread: Thread = { worker, streams: new Map(), warm: false, startedAt: performance.now() };
    this.#threads.add(thread);
    let failure: unknown;
    worker.on('message', (message: FromVoiceThread) => this.#receive(thread, message));
    worker.on('error', (error) => {
      failure = error;
    });
    worker.on('exit', (code) => this.#onExit(thread, failure, code));
  }

  #receive(thread: Thread, message: FromVoiceThread): void {
    if (typeof message === 'number') {
      this.#answered(thread.streams.get(message));
      return;
    }
    if (message.type === 'warm') {
      thread.warm = true;
      this.#changed();
      return;
    }
    const stream = thread.streams.get(message.stream);
    if (message.type === 'run') return void (stream && this.#run(thread, stream, message));
    this.#answered(stream, message.type === 'failed' ? new Error(message.message) : undefined);
  }

  #answered(stream: Stream | undefined, failure?: Error): void {
    const asked = stream?.asked;
    if (!stream || !asked) return;
    stream.asked = undefined;
    if (failure) asked.reject(failure);
    else asked.resolve();
  }

  /** Runs a model for a stream, while its thread continues with other streams. */
  async #run(
    thread: Thread,
    stream: Stream,
    { run, model, feeds }: Extract<FromVoiceThread, { type: 'run' }>,
  ): Promise<void> {
    stream.runs++;
    let output: FloatTensor | undefined;
    let failure = 'no models were opened';
    try {
      output = await stream.run?.(model, feeds, stream.ending.signal);
    } catch (error) {
      failure = describeError(error);
    }
    stream.runs--;
    if (stream.asked) stream.asked.at = performance.now();
    this.#tell(thread, { type: 'ran', run, output, failure }, output ? [output.data.buffer] : []);
  }

  #onExit(thread: Thread, failure: unknown, code: number): void {
    this.#threads.delete(thread);
    const how = failure === undefined ? `exit status ${code}` : describeError(failure);
    const error = new LiveThreadError(`a voice thread ended (${how})`, { cause: failure });
    const streams = [...thread.streams.values()];
    thread.streams.clear();
    for (const { asked, onEnd, ending } of streams) {
      ending.abort(error);
      asked?.reject(error);
      onEnd(error);
    }
    this.#watch();
    if (this.#closed) return;
    this.#options.onCrash();
    this.#failures = performance.now() - thread.startedAt > STEADY_MS ? 1 : this.#failures + 1;
    const delayMs = this.#options.restartDelayMs ?? restartDelayMs;
    const pauseMs = delayMs(this.#failures);
    this.#options.logger.warn({ err: error, pauseMs }, `${error.message}; it is replaced`);
    const pause = setTimeout(() => {
      this.#pauses.delete(pause);
      this.#start();
    }, pauseMs);
    this.#pauses.add(pause);
    this.#changed();
  }

  #changed(): void {
    this.#options.onChange();
    for (const check of this.#waiting.splice(0)) check();
  }

  /** Checks for hung threads while there are streams; the `exit` event reports ended threads. */
  #watch(): void {
    if (this.streams === 0 || this.#closed) {
      clearInterval(this.#look);
      this.#look = undefined;
      return;
    }
    const hungMs = this.#options.hungMs ?? HUNG_MS;
    if (this.#look) return;
    const standstill = new Standstill(hungMs / 5);
    standstill.begin(performance.now());
    this.#look = setInterval(() => {
      const now = performance.now();
      if (standstill.was(now)) return;
      const since = now - hungMs;
      for (const { worker, streams } of this.#threads)
        if ([...streams.values()].some(({ asked, runs }) => asked && runs === 0 && asked.at < since))
          void worker.terminate();
    }, hungMs / 5);
  }
}

function restartDelayMs(failures: number): number {
  return backoffMs(failures - 1, 100, LONGEST_PAUSE_MS);
}
