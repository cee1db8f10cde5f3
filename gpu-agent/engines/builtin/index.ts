import { availableParallelism } from 'node:os';
import { type Engine, RenderError, type RenderRequest, type RenderResult } from '../engine.ts';
import { BUILTIN_CAPABILITIES } from './capabilities.ts';
import { WorkerPool } from './pool/worker-pool.ts';

export interface BuiltinEngineOptions {
  /** Renders at once, one thread each; default: one for each core. */
  readonly threads?: number;
  /** Where converted networks are kept; default as the model cache says. */
  readonly cacheDir?: string;
  readonly logger?: { warn(fields: object, message: string): void };
}

/** The engine that runs everywhere: shipped networks and classical image processing on the CPU. */
export function createBuiltinEngine(options: BuiltinEngineOptions = {}): Engine {
  const threads = options.threads ?? availableParallelism();
  if (!Number.isInteger(threads) || threads < 1)
    throw new RangeError(`threads must be a positive integer, not ${threads}`);
  const pool = new WorkerPool({
    threads,
    cacheDir: options.cacheDir,
    onCrash: (error) => options.logger?.warn({ err: error }, 'a render thread ended and will be replaced'),
  });
  return {
    name: 'builtin',
    version: '1',
    capabilities: BUILTIN_CAPABILITIES.map(({ capability, slots, memoryMib }) => ({
      capability,
      slots,
      memoryMib,
    })),
    warmUp: (signal) => pool.warmUp(signal),
    render: (request) => render(pool, request),
    close: () => pool.close(),
  };
}

async function render(pool: WorkerPool, request: RenderRequest): Promise<RenderResult> {
  const { capability, inputs, parameters, outputDir, signal, onProgress } = request;
  if (!BUILTIN_CAPABILITIES.some((offered) => offered.capability === capability)) {
    throw new RenderError('processing_failed', `The builtin engine has no capability ${capability}.`);
  }
  return pool.render({ capability, inputs, parameters, outputDir }, signal, onProgress);
}
