import { type ChildProcess, fork } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { createClientLog } from '@semblance/common/client-log';
import type { Logger } from '@semblance/common/logging';
import { NODE_FLAGS } from '@semblance/common/node-flags';
import { lowerPriority } from '@semblance/common/process/lower-priority';
import { DeviceGoneError, deviceFaultOf } from '@semblance/engine-api/device-fault';
import type { OnProgress, RenderResult } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { InspectWork, RenderWork } from '@semblance/engine-api/render-work';
import { NO_TELEMETRY } from '@semblance/vision/models/no-telemetry';
import { EngineCrashedError, EngineStartError, isSpent, renderFailure } from './failures.ts';
import type { EngineInfo, EngineSetup, FromEngine, ToEngine } from './protocol.ts';

/** Environment variables of the agent that an engine process gets. Credentials are not among them. */
const PASSED_ON =
  /^(PATH|HOME|LANG|LC_.*|TZ|XDG_CACHE_HOME|LD_LIBRARY_PATH|SEMBLANCE_MEDIA_ISOLATION|(CUDA|NVIDIA|OMP|ORT)_.*)$/;

/** Lines of output that are logged in ten seconds. */
const OUTPUT_LINES = 200;
/** Default nice value: half the weight of a process of normal priority on the same core. */
export const ENGINE_NICE = 3;

export interface EngineProcessOptions {
  readonly setup: EngineSetup;
  /** Existing private directory for the engine's temporary files. */
  readonly tempDir: string;
  readonly logger: Logger;
  readonly warmUpTimeoutMs: number;
  /** Time for a cancelled render to end before the process is killed, in ms. */
  readonly cancelGraceMs: number;
  /** Nice value of the process; default {@link ENGINE_NICE}. */
  readonly nice?: number;
  readonly signal: AbortSignal;
}

export interface EngineProcess {
  readonly pid: number;
  readonly engine: EngineInfo;
  readonly alive: boolean;
  /** Number of renders held at the moment. */
  readonly busy: number;
  /** Resolves with the reason when the process is gone; never rejects. */
  readonly exited: Promise<string>;
  /**
   * Renders in the process. An abort cancels the render. When the promise settles, nothing of the render runs.
   * @throws the signal's reason, RenderError, EngineInterruptedError, EngineFaultError, EngineCrashedError or
   * DeviceGoneError
   */
  render(work: RenderWork, options: RenderOptions): Promise<RenderResult>;
  /** Looks at the pictures of a render in the process; for the rest like `render`. */
  inspect(work: InspectWork, signal: AbortSignal): Promise<Findings>;
  /** Kills the process, because its device is gone with all memory on it. */
  deviceGone(reason: string): void;
  /** Gives the process no more work, and ends it when what it holds is done. */
  retire(reason: string): void;
  /** Why the process was retired; undefined if it was not. */
  readonly retired: string | undefined;
  /** Asks the process to end, and kills it after `graceMs`. */
  close(graceMs?: number): Promise<void>;
}

export interface RenderOptions {
  readonly signal: AbortSignal;
  readonly onProgress: OnProgress;
}

interface Held {
  readonly settle: (outcome: { result: RenderResult | Findings } | { error: Error }) => void;
  readonly onProgress: RenderOptions['onProgress'];
}

/**
 * Node flags of a rendering process. V8 sizes its old generation by what outlives a render, which is only a few MB.
 * So the picture buffers of every render would trigger a full collection: a fifth of the CPU of a Photo Swap. The
 * initial size postpones collections until there is that much to collect.
 */
export const ENGINE_FLAGS = [...NODE_FLAGS, '--initial-old-space-size=256'] as const;

/**
 * Starts an engine in a separate process and resolves when it is warm.
 * @throws EngineStartError, or the signal's reason
 */
export async function startEngineProcess(options: EngineProcessOptions): Promise<EngineProcess> {
  const { setup, logger, signal } = options;
  signal.throwIfAborted();
  const child = fork(new URL('./host-main.ts', import.meta.url), [JSON.stringify(setup)], {
    // The agent's own flags may belong to a test runner or a debugger, so they are not inherited.
    execArgv: [...ENGINE_FLAGS],
    env: {
      ...Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED_ON.test(name))),
      ...NO_TELEMETRY,
      TMPDIR: options.tempDir,
    },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const held = new Map<number, Held>();
  let dead: string | undefined;
  /** The engine's own reason for ending its process. */
  let lastWords: string | undefined;
  /** Why the process was killed because of its device. */
  let gone: string | undefined;
  let retired: string | undefined;
  const exited = new Promise<string>((resolve) => {
    const end = (reason: string) => {
      if (dead !== undefined) return;
      dead = reason;
      const during = `the engine process ended during the render (${reason})`;
      const isGone = gone !== undefined || deviceFaultOf(reason) === 'gone';
      for (const { settle } of held.values()) {
        settle({ error: isGone ? new DeviceGoneError(during) : new EngineCrashedError(during) });
      }
      resolve(reason);
    };
    child.once('exit', (code, killedBy) =>
      end(gone ?? lastWords ?? (killedBy ? `killed by ${killedBy}` : `exit status ${code}`)),
    );
    child.once('error', (error) => {
      // A process that never started reports no exit.
      if (child.pid === undefined) end(`cannot be started: ${error.message}`);
    });
  });
  // Renders must never take the CPU from the agent's own loop, which renews the Lease.
  if (child.pid !== undefined) lowerPriority(child.pid, options.nice ?? ENGINE_NICE);
  // A file of a stranger may make a library say something for each of its frames.
  const log = createClientLog(logger, { lines: OUTPUT_LINES });
  logLines(child.stdout, (line) => log.info('out', { engine: setup.source.name, line }, 'engine output'));
  logLines(child.stderr, (line) => log.warn('err', { engine: setup.source.name, line }, 'engine output'));

  const engine = await warmedUp(child, options, exited);
  child.on('message', (message: FromEngine) => {
    if (message.type === 'progress')
      held.get(message.id)?.onProgress(message.fraction, message.stage, message.secondsLeft);
    else if (message.type === 'result') held.get(message.id)?.settle({ result: message.result });
    else if (message.type === 'error') {
      held.get(message.id)?.settle({ error: renderFailure(message) });
      if (isSpent(message)) endSpent(message.message);
    } else if (message.type === 'ended') lastWords = message.reason.slice(0, 1_000);
  });

  /**
   * Ends a process after a fault of its device: it computes nothing more, or nothing correct, and memory that was
   * full stays full until it ends. An engine that ends by itself does so in the same moment.
   */
  function endSpent(reason: string): void {
    // Of a client, only the program at the other end could be at fault.
    if (setup.source.remote) return;
    lastWords ??= reason.slice(0, 1_000);
    child.kill('SIGKILL');
  }

  let lastId = 0;
  /** Sends a piece of work, and returns its result. */
  async function carryOut(
    message: (id: number) => ToEngine,
    { signal: cancelled, onProgress }: RenderOptions,
  ): Promise<RenderResult | Findings> {
    cancelled.throwIfAborted();
    const ended = dead ?? lastWords ?? retired;
    if (ended !== undefined) throw new EngineCrashedError(`the engine process has ended (${ended})`);
    const id = ++lastId;
    let killTimer: NodeJS.Timeout | undefined;
    const cancel = () => {
      tell(child, { type: 'cancel', id });
      killTimer = setTimeout(() => {
        logger.warn({ engine: engine.name, enginePid: child.pid }, 'killing an engine that ignores a cancel');
        child.kill('SIGKILL');
      }, options.cancelGraceMs);
    };
    try {
      return await new Promise((resolve, reject) => {
        const settle: Held['settle'] = (outcome) => {
          held.delete(id);
          if (retired !== undefined && held.size === 0) void close();
          if (cancelled.aborted) reject(cancelled.reason);
          else if ('error' in outcome) reject(outcome.error);
          else resolve(outcome.result);
        };
        held.set(id, { settle, onProgress: (...args) => !cancelled.aborted && onProgress(...args) });
        cancelled.addEventListener('abort', cancel, { once: true });
        tell(child, message(id));
      });
    } finally {
      cancelled.removeEventListener('abort', cancel);
      clearTimeout(killTimer);
    }
  }

  return {
    pid: child.pid ?? 0,
    engine,
    get alive() {
      // An engine that announced its end, or must end, accepts no new work, although its process still runs.
      return dead === undefined && lastWords === undefined && retired === undefined;
    },
    get retired() {
      return retired;
    },
    get busy() {
      return held.size;
    },
    exited,
    render: (work, options) =>
      carryOut((id) => ({ type: 'render', id, work }), options) as Promise<RenderResult>,
    inspect: (work, signal) =>
      carryOut((id) => ({ type: 'inspect', id, work }), {
        signal,
        onProgress: () => {},
      }) as Promise<Findings>,
    deviceGone(reason) {
      gone ??= reason;
      child.kill('SIGKILL');
    },
    retire(reason) {
      retired ??= reason;
      if (held.size === 0) void close();
    },
    close,
  };

  async function close(graceMs = 2_000): Promise<void> {
    tell(child, { type: 'close' });
    const timer = setTimeout(() => child.kill('SIGKILL'), graceMs);
    await exited;
    clearTimeout(timer);
  }
}

async function warmedUp(
  child: ChildProcess,
  options: EngineProcessOptions,
  exited: Promise<string>,
): Promise<EngineInfo> {
  const { setup, signal, logger, warmUpTimeoutMs } = options;
  const { promise, resolve, reject } = Promise.withResolvers<EngineInfo>();
  const onMessage = (message: FromEngine) => {
    if (message.type === 'unusable') reject(new EngineStartError(`${setup.source.name}: ${message.message}`));
    if (message.type !== 'ready') return;
    logger.info(
      { engine: message.engine.name, enginePid: child.pid, warmUpMs: message.warmUpMs },
      'engine is warm',
    );
    resolve(message.engine);
  };
  const onAbort = () => reject(signal.reason);
  const timer = setTimeout(() => {
    reject(new EngineStartError(`${setup.source.name} did not warm up within ${warmUpTimeoutMs / 1000} s`));
  }, warmUpTimeoutMs);
  child.on('message', onMessage);
  signal.addEventListener('abort', onAbort, { once: true });
  void exited.then((reason) => {
    // The last messages of the process may still be in the channel, so they are read first.
    setImmediate(() =>
      reject(new EngineStartError(`${setup.source.name} ended while it warmed up (${reason})`)),
    );
  });
  try {
    return await promise;
  } catch (error) {
    child.kill('SIGKILL');
    await exited;
    throw error;
  } finally {
    clearTimeout(timer);
    child.off('message', onMessage);
    signal.removeEventListener('abort', onAbort);
  }
}

function tell(child: ChildProcess, message: ToEngine): void {
  // After the channel has closed, the process exits, and its exit settles all waiting calls.
  if (child.connected) child.send(message, () => {});
}

function logLines(stream: Readable | null, write: (line: string) => void): void {
  if (!stream) return;
  createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY }).on('line', (line) => {
    if (line.trim()) write(line.slice(0, 2_000));
  });
}
