import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs, jittered } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { DeviceGoneError, deviceFaultOf } from '@semblance/engine-api/device-fault';
import type { RenderResult } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { InspectWork, RenderWork } from '@semblance/engine-api/render-work';
import type { EngineMemory } from '../../cards/cards.ts';
import { createDeviceWatch } from './device-watch.ts';
import { type EngineProcess, type RenderOptions, startEngineProcess } from './engine-process.ts';
import type { EngineInfo, EngineSetup } from './protocol.ts';
import { keepBelowCeiling } from './vram-ceiling.ts';
import { createWaitingRenders } from './waiting-renders.ts';

/** No process of the engine became free in time, because they keep restarting. */
export class EngineUnavailableError extends Error {
  override readonly name = 'EngineUnavailableError';
  readonly code = 'engine_unavailable';
  readonly retryable = true;
}

export interface EnginePoolOptions {
  readonly setup: EngineSetup;
  /** Number of processes kept warm. */
  readonly processes: number;
  /**
   * Renders that one process holds at once. 1 isolates renders from each other; with more, they share the engine's
   * memory.
   */
  readonly rendersPerProcess: number;
  /**
   * Whether the capabilities are offered while no process is warm, so that work waits for the restart. Default:
   * true; false for engines that may stay away for long.
   */
  readonly offeredWhileDown?: boolean;
  /** Existing private directory; each process gets a temporary folder there. */
  readonly tempDir: string;
  readonly logger: Logger;
  readonly warmUpTimeoutMs?: number;
  readonly cancelGraceMs?: number;
  /** Nice value of the processes. */
  readonly nice?: number;
  /** Tells the memory of the processes on the cards; undefined: nothing does. */
  readonly memory?: EngineMemory | undefined;
  /** Longest wait of a render for a restarting process, in ms. */
  readonly waitMs?: number;
  readonly restartDelayMs?: (failures: number) => number;
  /** Called when the number of warm processes changed. */
  readonly onChange?: () => void;
  /** Called when a process ended unexpectedly. */
  readonly onCrash?: () => void;
}

export interface EnginePool {
  /** Present offer of the engine. Undefined until the first process is warm. */
  readonly engine: EngineInfo | undefined;
  /** Last statement of the engine, whether or not it is usable now. */
  readonly known: EngineInfo | undefined;
  /** Renders that all processes hold when warm; 0 until the first is warm. */
  readonly places: number;
  /** Most renders that the warm processes hold now. */
  readonly capacity: number;
  /** The warm processes, for inspection. */
  readonly warm: readonly Pick<EngineProcess, 'pid' | 'busy'>[];
  /** Memory that the processes hold on the cards with their models, in MiB; undefined: not known. */
  readonly vramMib: number | undefined;
  /** Why no process is warm; undefined when one is. */
  readonly trouble: string | undefined;
  /**
   * Why the device of the engine is unusable; undefined when it is usable or not needed. Meanwhile nothing is
   * offered.
   */
  readonly deviceTrouble: string | undefined;
  /** @throws EngineUnavailableError, DeviceGoneError and the errors of `EngineProcess.render` */
  render(work: RenderWork, options: RenderOptions): Promise<RenderResult>;
  /**
   * Looks at the pictures of a render in a process that is free now.
   * @throws EngineUnavailableError when none is, and the errors of `EngineProcess.inspect`
   */
  inspect(work: InspectWork, signal: AbortSignal): Promise<Findings>;
  /** Resolves when the first process is warm, failed to warm up, or never will be warm. */
  readonly tried: Promise<void>;
  /** Resolves when the first process is warm; rejects when the pool is closed earlier. */
  firstReady(): Promise<EngineInfo>;
  close(): Promise<void>;
}

const HEALTHY_AFTER_MS = 60_000;

/**
 * Returns the pause before a restart, in ms: 0.1 s after the first crash, doubled up to 30 s, so that a broken
 * engine does not load the node.
 */
function defaultRestartDelay(failures: number): number {
  return jittered(backoffMs(failures - 1, 100, 30_000));
}

/** Returns the setup of an engine whose device had a fault: from then on it works on the device or not at all. */
function onDeviceOnly(setup: EngineSetup): EngineSetup {
  const settings = { ...setup.options.settings, gpuOnly: 'on' };
  return { ...setup, options: { ...setup.options, settings } };
}

/**
 * Keeps processes of one engine warm and gives each render to a free one. A process that dies loses only its own
 * renders. It is started again, after longer and longer delays if that repeats.
 */
export function createEnginePool(options: EnginePoolOptions): EnginePool {
  const { setup, logger, processes, rendersPerProcess } = options;
  const { name } = setup.source;
  const closing = new AbortController();
  const warm = new Set<EngineProcess>();
  /** Memory of each on the cards after its warm-up, in MiB. */
  const held = new Map<EngineProcess, number | undefined>();
  const first = Promise.withResolvers<EngineInfo>();
  const tried = Promise.withResolvers<void>();
  let engine: EngineInfo | undefined;
  let trouble: string | undefined = 'warming up';
  /** A process was retired, and no other is warm: nothing is offered, because that wait may be long. */
  let renewing = false;

  const placesOf = (of: EngineInfo) =>
    Math.max(1, Math.min(rendersPerProcess, of.concurrency ?? rendersPerProcess));
  const freeProcess = () => {
    for (const process of warm) if (process.alive && process.busy < placesOf(process.engine)) return process;
    return undefined;
  };
  const waiting = createWaitingRenders({
    findFree: freeProcess,
    waitMs: options.waitMs ?? 30_000,
    closing: closing.signal,
    late: () =>
      new EngineUnavailableError(`no process of ${name} was free in time: ${trouble ?? 'all are busy'}`),
    closed: () => new EngineUnavailableError('the agent is ending'),
  });

  const device = createDeviceWatch({
    devices: setup.source.devices ?? [],
    onMissing(reason) {
      for (const process of warm) process.deviceGone(reason);
    },
    onLost(reason) {
      logger.error({ engine: name, reason }, 'cannot use the device of the engine; offering nothing of it');
      options.onChange?.();
    },
  });

  async function startOne(index: number): Promise<EngineProcess> {
    device.assertPresent();
    // Each process starts with an empty folder, because nobody else removes the files of its predecessor.
    const tempDir = join(options.tempDir, `${name}-${index}`);
    await rm(tempDir, { recursive: true, force: true });
    await mkdir(tempDir, { mode: 0o700 });
    return startEngineProcess({
      setup: device.hadFault ? onDeviceOnly(setup) : setup,
      tempDir,
      logger,
      warmUpTimeoutMs: options.warmUpTimeoutMs ?? 120_000,
      cancelGraceMs: options.cancelGraceMs ?? 1_000,
      ...(options.nice === undefined ? {} : { nice: options.nice }),
      signal: closing.signal,
    });
  }

  async function keepOne(index: number): Promise<void> {
    const { signal } = closing;
    let failures = 0;
    // The first process fills the model cache alone, so that the others only read it.
    if (index > 0) await first.promise;
    while (!signal.aborted) {
      try {
        const measured = await options.memory?.starting();
        const process = await startOne(index);
        await measured?.(process.pid);
        held.set(process, options.memory?.vramOf(process.pid) ?? process.engine.vramMib);
        // The newest statement counts: an engine that is a separate program may come back as another version.
        engine = process.engine;
        trouble = undefined;
        renewing = false;
        if (device.restored()) logger.info({ engine: name }, 'the device of the engine works again');
        warm.add(process);
        const since = performance.now();
        first.resolve(process.engine);
        tried.resolve();
        options.onChange?.();
        waiting.handOut();
        const unwatch = watchCeiling(process);
        const reason = await process.exited;
        unwatch();
        options.memory?.ended(process.pid);
        warm.delete(process);
        held.delete(process);
        if (process.retired !== undefined && !signal.aborted) {
          if (warm.size === 0) trouble = `the engine is being started anew: ${process.retired}`;
          renewing = warm.size === 0;
          options.onChange?.();
          continue;
        }
        if (performance.now() - since > HEALTHY_AFTER_MS) failures = 0;
        if (!signal.aborted) {
          if (warm.size === 0) trouble = `the engine process ended (${reason})`;
          if (deviceFaultOf(reason)) device.lost(reason);
          logger.error(
            { engine: name, enginePid: process.pid, reason },
            'engine process ended; restarting it',
          );
          options.onCrash?.();
          options.onChange?.();
        }
      } catch (error) {
        tried.resolve();
        if (signal.aborted) break;
        if (warm.size === 0) trouble = describeError(error);
        logger.error({ engine: name, err: error }, `engine cannot start: ${describeError(error)}`);
        options.onCrash?.();
      }
      failures++;
      await delay((options.restartDelayMs ?? defaultRestartDelay)(failures), undefined, { signal }).catch(
        () => {},
      );
    }
  }

  function watchCeiling(process: EngineProcess): () => void {
    const { vramCeilingMib: ceilingMib } = setup.source;
    if (ceilingMib === undefined || !options.memory) return () => {};
    const onRetire = () => options.onChange?.();
    return keepBelowCeiling({ memory: options.memory, ceilingMib, process, logger, onRetire });
  }

  const kept = Array.from({ length: processes }, (_, index) => keepOne(index));
  first.promise.catch(() => {});

  return {
    get engine() {
      if (device.trouble !== undefined || renewing) return undefined;
      if (warm.size > 0 && [...warm].every(({ retired }) => retired !== undefined)) return undefined;
      return warm.size > 0 || options.offeredWhileDown !== false ? engine : undefined;
    },
    get known() {
      return engine;
    },
    get places() {
      return engine ? processes * placesOf(engine) : 0;
    },
    get capacity() {
      const taking = [...warm].filter(({ retired }) => retired === undefined);
      return taking.reduce((sum, process) => sum + placesOf(process.engine), 0);
    },
    get vramMib() {
      const known = [...held.values()].filter((each) => each !== undefined);
      return known.length > 0 ? known.reduce((sum, each) => sum + each, 0) : undefined;
    },
    get warm() {
      return [...warm];
    },
    get trouble() {
      return warm.size > 0 ? undefined : trouble;
    },
    get deviceTrouble() {
      return device.trouble;
    },
    async render(work, renderOptions) {
      renderOptions.signal.throwIfAborted();
      if (closing.signal.aborted) throw new EngineUnavailableError('the agent is ending');
      if (device.trouble !== undefined) throw new DeviceGoneError(device.trouble);
      try {
        return await waiting.use(renderOptions.signal, (process) => process.render(work, renderOptions));
      } finally {
        waiting.handOut();
      }
    },
    async inspect(work, signal) {
      signal.throwIfAborted();
      const process = freeProcess();
      if (!process) throw new EngineUnavailableError(`no process of ${name} is free`);
      try {
        return await process.inspect(work, signal);
      } finally {
        waiting.handOut();
      }
    },
    tried: tried.promise,
    firstReady: () => first.promise,
    async close() {
      device.close();
      if (!closing.signal.aborted) closing.abort(new Error('the engine pool is closing'));
      first.reject(closing.signal.reason);
      await Promise.all([...warm].map((process) => process.close()));
      await Promise.allSettled(kept);
    },
  };
}
