// First: the library reads it when it is loaded.
import './no-telemetry.ts';
import { InferenceSession } from 'onnxruntime-node';
import type { ModelName } from './catalog.ts';
import { ensureOnnxModel } from './model-cache.ts';
import { throughGate } from './thread-gate.ts';

/**
 * Opens a single-threaded CPU session: the networks are so small that parallel renders in several threads use the
 * cores better than several threads in one network, and one thread gives the same bits every time.
 * A cached file that cannot be loaded (cut off by a full disk, say) is converted once more.
 */
export async function openSession(name: ModelName, cacheDir?: string): Promise<InferenceSession> {
  const options: InferenceSession.SessionOptions = {
    executionProviders: ['cpu'],
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
    logSeverityLevel: 3,
  };
  const cache = cacheDir === undefined ? {} : { cacheDir };
  const path = await ensureOnnxModel(name, cache);
  const load = (file: string) => throughGate(() => InferenceSession.create(file, options));
  const session = await load(path).catch(async () =>
    load(await ensureOnnxModel(name, { ...cache, refresh: true })),
  );
  const run = session.run.bind(session) as (...args: unknown[]) => Promise<InferenceSession.ReturnType>;
  return Object.assign(session, { run: (...args: unknown[]) => throughGate(() => run(...args)) });
}
