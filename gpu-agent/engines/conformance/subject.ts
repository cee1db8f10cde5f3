import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { silentLogger } from '#common/logging.ts';
import type { Engine, RenderResult } from '../engine.ts';
import { createEnginePool } from '../host/engine-pool.ts';
import type { RenderOptions } from '../host/engine-process.ts';
import type { EngineInfo, RenderWork } from '../host/protocol.ts';
import type { EngineSource } from '../registry.ts';
import { createSidecarEngine } from '../sidecar/index.ts';

/** An engine that was started to be looked at, whichever way it is reached. */
export interface Subject {
  /** As it says of itself, warm. */
  readonly info: EngineInfo;
  /** Absent where the host alone warms it up. */
  readonly warmUp?: (signal: AbortSignal) => Promise<void>;
  render(work: RenderWork, options: RenderOptions): Promise<RenderResult>;
  /** Renders it holds at once. */
  readonly places: number;
  /** Kills a process that renders now, as a crash would. Absent where there is none to kill. */
  readonly crash?: () => void;
  /** The renders at once are in processes of their own, so that a crash must leave the others alone. */
  readonly isolated?: boolean;
  close(): Promise<void>;
}

export interface SubjectOptions {
  /** Existing private directory for whatever the subject needs. */
  readonly dir: string;
  readonly signal: AbortSignal;
}

export type StartSubject = (options: SubjectOptions) => Promise<Subject>;

/** An engine in this process. */
export function inProcess(create: () => Engine | Promise<Engine>): StartSubject {
  return async ({ signal }) => {
    const engine = await create();
    await engine.warmUp(signal);
    return ofEngine(engine);
  };
}

function ofEngine(engine: Engine, more: Partial<Subject> = {}): Subject {
  const { name, version, capabilities, concurrency } = engine;
  return {
    info: { name, version, capabilities, ...(concurrency === undefined ? {} : { concurrency }) },
    warmUp: (signal) => engine.warmUp(signal),
    render: (work, { signal, onProgress }) => engine.render({ ...work, signal, onProgress }),
    places: concurrency ?? 1,
    close: () => engine.close(),
    ...more,
  };
}

/** An engine in processes of its own, as the agent has it. */
export function hosted(source: EngineSource, processes = 2): StartSubject {
  return async ({ dir }) => {
    const tempDir = join(dir, 'engine-processes');
    await mkdir(tempDir, { recursive: true });
    const pool = createEnginePool({
      setup: { source, options: { threads: 1, ...(source.settings ? { settings: source.settings } : {}) } },
      processes,
      rendersPerProcess: 1,
      tempDir,
      logger: silentLogger(),
      restartDelayMs: () => 50,
    });
    const info = await pool.firstReady();
    while (pool.capacity < processes) await new Promise((resolve) => setTimeout(resolve, 20));
    return {
      info,
      places: processes,
      render: (work, options) => pool.render(work, options),
      isolated: true,
      crash() {
        const busy = pool.warm.find((each) => each.busy > 0);
        if (busy) process.kill(busy.pid, 'SIGKILL');
      },
      close: () => pool.close(),
    };
  };
}

/**
 * A sidecar behind a socket.
 * @param command starts it with SEMBLANCE_SIDECAR_SOCKET set; without one it has to run already, and is not killed
 */
export function sidecar(socket: string, command?: readonly string[]): StartSubject {
  return async ({ signal }) => {
    const start = () => (command ? startProgram(command, socket) : undefined);
    let program = start();
    const open = async () => {
      const engine = createSidecarEngine({ threads: 1, settings: { socket } });
      await Promise.race([engine.warmUp(signal), program?.died]).catch(async (error) => {
        await engine.close();
        await program?.end();
        throw error;
      });
      return engine;
    };
    let engine = await open();
    let restarted: Promise<void> | undefined;
    return ofEngine(engine, {
      places: engine.concurrency ?? 1,
      warmUp: (each) => engine.warmUp(each),
      async render(work, { signal: each, onProgress }) {
        await restarted;
        return engine.render({ ...work, signal: each, onProgress });
      },
      ...(command
        ? {
            crash() {
              const [before, old] = [program, engine];
              before?.kill();
              // As the host does: a client whose sidecar went has ended, and another is started.
              restarted = (async () => {
                await old.ended;
                await old.close();
                program = start();
                engine = await open();
              })();
            },
          }
        : {}),
      async close() {
        await restarted;
        await engine.close();
        await program?.end();
      },
    });
  };
}

function startProgram([file = '', ...args]: readonly string[], socket: string) {
  const child: ChildProcess = spawn(file, args, {
    env: { ...process.env, SEMBLANCE_SIDECAR_SOCKET: socket },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  let ended = false;
  const over = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, by) => resolve(`the sidecar ended (${by ?? `status ${code}`})`));
  }).finally(() => {
    ended = true;
  });
  const died = over.then((reason) => Promise.reject(new Error(reason)));
  died.catch(() => {});
  return {
    died,
    kill: () => void child.kill('SIGKILL'),
    async end() {
      if (ended) return;
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 5_000);
      await over;
      clearTimeout(timer);
    },
  };
}
