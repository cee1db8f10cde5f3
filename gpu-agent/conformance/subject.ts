import { type ServiceError, status } from '@grpc/grpc-js';
import type { Engine, RenderResult } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { InspectWork, RenderWork } from '@semblance/engine-api/render-work';
import { createSidecarEngine } from '@semblance/engine-sidecar';
import { SIDECAR_TIMES } from '@semblance/engine-sidecar/connection';
import type { RenderOptions } from '../engines/host/engine-process.ts';
import type { EngineInfo } from '../engines/host/protocol.ts';
import { startProgram } from './program.ts';

/** A started engine under test, however it is reached. */
export interface Subject {
  /** Statement of the warm engine about itself. */
  readonly info: EngineInfo;
  /** Undefined when the host warms the engine up. */
  readonly warmUp?: (signal: AbortSignal) => Promise<void>;
  render(work: RenderWork, options: RenderOptions): Promise<RenderResult>;
  /** Undefined when the engine inspects nothing. */
  readonly inspect?: (work: InspectWork, signal: AbortSignal) => Promise<Findings>;
  /** Number of renders that the engine holds at once. */
  readonly places: number;
  /** Kills a rendering process, as a crash would. Undefined when there is none to kill. */
  readonly crash?: () => void;
  /** Resolves when all killed processes are replaced. */
  readonly restarted?: () => Promise<void>;
  /** Whether simultaneous renders run in separate processes, so that a crash must not affect the others. */
  readonly isolated?: boolean;
  close(): Promise<void>;
}

export interface SubjectOptions {
  /** Existing private directory for the subject. */
  readonly dir: string;
  readonly signal: AbortSignal;
}

export type StartSubject = (options: SubjectOptions) => Promise<Subject>;

export function ofEngine(engine: Engine, more: Partial<Subject> = {}): Subject {
  const { name, version, capabilities, concurrency } = engine;
  const inspect = engine.inspect?.bind(engine);
  return {
    info: { name, version, capabilities, ...(concurrency === undefined ? {} : { concurrency }) },
    warmUp: (signal) => engine.warmUp(signal),
    render: (work, options) => rendered(engine, work, options),
    ...(inspect ? { inspect: (work: InspectWork, signal: AbortSignal) => inspect({ ...work, signal }) } : {}),
    places: concurrency ?? 1,
    close: () => engine.close(),
    ...more,
  };
}

/** Renders as the host does: a cancelled render counts as cancelled, whatever it returns. */
async function rendered(engine: Engine, work: RenderWork, { signal, onProgress }: RenderOptions) {
  try {
    return await engine.render({ ...work, signal, onProgress });
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  }
}

/**
 * Detects a real answer of the sidecar: one that is not there yet, or is slow, gives none. An agent asks again, but
 * for a test the first answer counts.
 */
function isAnswer(error: unknown): error is ServiceError {
  const { code } = error as ServiceError;
  return typeof code === 'number' && code !== status.UNAVAILABLE && code !== status.DEADLINE_EXCEEDED;
}

/** Returns the reason alone when a sidecar answers with a whole traceback. */
function lastLine({ code, details }: ServiceError): string {
  return details.trim().split('\n').at(-1) || (status[code] ?? `code ${code}`);
}

/**
 * Runs a sidecar behind a socket.
 * @param command starts it with SEMBLANCE_SIDECAR_SOCKET set; without one it must already run, and is not killed
 */
export function sidecar(socket: string, command?: readonly string[]): StartSubject {
  return async ({ signal }) => {
    const start = () => (command ? startProgram(command, socket) : undefined);
    let program = start();
    const open = async () => {
      const engine = createSidecarEngine({ threads: 1, settings: { socket } }, SIDECAR_TIMES, isAnswer);
      await Promise.race([engine.warmUp(signal), ...(program ? [program.died] : [])]).catch(async (error) => {
        await engine.close();
        await program?.end();
        throw isAnswer(error) ? new Error(`the sidecar does not start: ${lastLine(error)}`) : error;
      });
      return engine;
    };
    let engine = await open();
    const inspects = engine.inspect !== undefined;
    let restarted: Promise<void> | undefined;
    return ofEngine(engine, {
      places: engine.concurrency ?? 1,
      warmUp: (each) => engine.warmUp(each),
      async render(work, each) {
        await restarted;
        return rendered(engine, work, each);
      },
      ...(inspects
        ? {
            async inspect(work: InspectWork, each: AbortSignal) {
              await restarted;
              if (!engine.inspect) throw new Error('after its restart it says that it does not inspect');
              return engine.inspect({ ...work, signal: each });
            },
          }
        : {}),
      ...(command
        ? {
            crash() {
              const [before, old] = [program, engine];
              before?.kill();
              // As in the host, the client ends with its sidecar, and a new client is started.
              restarted = (async () => {
                await old.ended;
                await old.close();
                program = start();
                engine = await open();
              })();
              // The next render reports the error.
              restarted.catch(() => {});
            },
          }
        : {}),
      async close() {
        await restarted?.catch(() => {});
        await engine.close();
        await program?.end();
      },
    });
  };
}
