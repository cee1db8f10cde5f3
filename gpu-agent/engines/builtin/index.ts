import { availableParallelism } from 'node:os';
import { type Engine, RenderError, type RenderRequest, type RenderResult } from '../engine.ts';
import { WorkerPool } from './pool/worker-pool.ts';

export interface BuiltinEngineOptions {
  /** Renders at once, one thread each; default: one for each core. */
  readonly threads?: number;
  /** Where converted networks are kept; default as the model cache says. */
  readonly cacheDir?: string;
  readonly logger?: { warn(fields: object, message: string): void };
}

/** Peak resident memory: 1002 MiB measured with two pictures of 40 megapixels, 8 bits and alpha; 16 bits need more. */
const PHOTO_SWAP_MEMORY_MIB = 1536;

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
    capabilities: [{ capability: 'face-swap-image', slots: 1, memoryMib: PHOTO_SWAP_MEMORY_MIB }],
    warmUp: (signal) => pool.warmUp(signal),
    render: (request) => render(pool, request),
    close: () => pool.close(),
  };
}

async function render(pool: WorkerPool, request: RenderRequest): Promise<RenderResult> {
  if (request.capability !== 'face-swap-image') {
    throw new RenderError('processing_failed', `The builtin engine has no capability ${request.capability}.`);
  }
  const { image, face } = request.inputs;
  if (!image || !face)
    throw new RenderError('processing_failed', 'Photo Swap needs the inputs image and face.');
  return pool.photoSwap({ image, face, outputDir: request.outputDir }, request.signal, request.onProgress);
}
