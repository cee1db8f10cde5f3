/**
 * Main module of an engine process. It imports the engine named in its first argument, warms it up and renders what
 * the agent sends. It ends with the agent, however the agent ends. The agent handles signals to its process group
 * and sends `close`.
 */
import { Worker } from 'node:worker_threads';
import { describeError } from '@semblance/common/errors';
import {
  type Engine,
  EngineInterruptedError,
  type OnProgress,
  RenderError,
  type RenderResult,
} from '@semblance/engine-api/engine';
import { exhausted } from '@semblance/engine-api/exhausted';
import type { FactoryOptions } from '@semblance/engine-api/factory-options';
import type { Findings } from '@semblance/engine-api/findings';
import type { EngineSetup, FromEngine, ToEngine } from './protocol.ts';

/** Shortest interval between progress messages of one render, unless the stage changed, in ms. */
const PROGRESS_MS = 50;

const killSelf = () => process.kill(process.pid, 'SIGKILL');
const running = new Map<number, AbortController>();
let engine: Engine | undefined;

process.on('SIGTERM', () => {});
process.on('SIGINT', () => {});
process.on('disconnect', killSelf);
watchParent(500);

/**
 * Kills the process when its parent is gone. Only a running event loop notices the end of the IPC channel; a thread
 * notices it even while an engine blocks the main thread. The thread runs plain JavaScript from a string, so that
 * it loads no TypeScript loader.
 */
function watchParent(everyMs: number): void {
  const code = `
    const { workerData } = require('node:worker_threads');
    setInterval(() => {
      if (process.ppid !== workerData.parent) process.kill(process.pid, 'SIGKILL');
    }, workerData.everyMs);`;
  new Worker(code, {
    eval: true,
    env: {},
    workerData: { parent: process.ppid, everyMs },
    resourceLimits: { maxOldGenerationSizeMb: 16 },
  }).unref();
}

function send(message: FromEngine): void {
  // The channel may close while a render ends; the disconnect handler then ends the process.
  process.send?.(message, undefined, undefined, () => {});
}

async function start(setup: EngineSetup): Promise<void> {
  const began = performance.now();
  const module: Record<string, unknown> = await import(setup.source.module);
  const factory = module[setup.source.factory];
  if (typeof factory !== 'function') throw new Error(`the module exports no ${setup.source.factory}`);
  engine = await (factory as (options: FactoryOptions) => Engine | Promise<Engine>)(setup.options);
  await engine.warmUp(new AbortController().signal);
  const { name, version, capabilities, unavailable = [], concurrency, vramMib } = engine;
  send({
    type: 'ready',
    engine: {
      name,
      version,
      capabilities,
      unavailable,
      ...(concurrency === undefined ? {} : { concurrency }),
      ...(vramMib === undefined ? {} : { vramMib }),
      inspects: engine.inspect !== undefined,
      findsPeople: engine.findsPeople === true,
      previewsSwaps: engine.previewsSwaps === true,
    },
    warmUpMs: Math.round(performance.now() - began),
  });
  void engine.ended?.then((reason) => {
    process.send?.({ type: 'ended', reason } satisfies FromEngine, undefined, undefined, () =>
      process.exit(1),
    );
  });
}

/** Sends the progress of a render, less often than it is told. */
function progressOf(id: number): OnProgress {
  let lastAt = Number.NEGATIVE_INFINITY;
  let lastStage = '';
  return (fraction, stage, secondsLeft) => {
    const now = performance.now();
    if (stage === lastStage && now - lastAt < PROGRESS_MS) return;
    lastAt = now;
    lastStage = stage;
    const left = secondsLeft === undefined ? {} : { secondsLeft };
    send({ type: 'progress', id, fraction, stage, ...left });
  };
}

/** Sends the result or the error of work that a signal cancels. */
async function answer(
  id: number,
  act: (signal: AbortSignal) => Promise<RenderResult | Findings>,
): Promise<void> {
  const controller = new AbortController();
  running.set(id, controller);
  try {
    send({ type: 'result', id, result: await act(controller.signal) });
  } catch (error) {
    // Only text crosses the channel, so temporary faults must be detected here.
    const lack = exhausted(error);
    if (lack) console.warn(`${lack.message}: ${describeError(error)}`);
    const cause = lack ?? error;
    const { message } = cause as Error;
    if (cause instanceof EngineInterruptedError) send({ type: 'error', id, code: cause.code, message });
    else if (cause instanceof RenderError) {
      const { code, findings } = cause;
      send({ type: 'error', id, code, message, ...(findings ? { findings } : {}) });
    } else send({ type: 'error', id, message: describeError(error) });
  } finally {
    running.delete(id);
  }
}

function begin(host: Engine, message: Extract<ToEngine, { type: 'render' | 'inspect' }>): void {
  const { id } = message;
  void answer(id, (signal) => {
    if (message.type === 'render')
      return host.render({ ...message.work, signal, onProgress: progressOf(id) });
    if (!host.inspect) throw new Error(`the engine ${host.name} inspects nothing`);
    return host.inspect({ ...message.work, signal });
  });
}

async function close(): Promise<void> {
  for (const controller of running.values()) controller.abort(new Error('the agent is ending'));
  await engine?.close();
  process.exit(0);
}

process.on('message', (message: ToEngine) => {
  if (message.type === 'cancel') running.get(message.id)?.abort(new Error('cancelled'));
  else if (message.type === 'close') void close().catch(killSelf);
  else if (engine) begin(engine, message);
});

start(JSON.parse(process.argv[2] ?? '') as EngineSetup).catch((error: unknown) => {
  process.send?.(
    { type: 'unusable', message: describeError(error) } satisfies FromEngine,
    undefined,
    undefined,
    () => process.exit(1),
  );
});
