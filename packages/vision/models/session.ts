// This import comes first, because the library reads the variable when it is loaded.
import './no-telemetry.ts';
import { fileURLToPath } from 'node:url';
import { InferenceSession } from 'onnxruntime-node';
import { type NetworkName, networkFile } from './networks.ts';
import { throughGate } from './thread-gate.ts';

/**
 * Opens a single-threaded CPU session. The networks are so small that parallel renders in several threads use the
 * cores better than several threads in one network. One thread also gives identical bits every time.
 * @throws Error when the network's file is missing or cannot be loaded
 */
export async function openSession(name: NetworkName): Promise<InferenceSession> {
  const options: InferenceSession.SessionOptions = {
    executionProviders: ['cpu'],
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
    logSeverityLevel: 3,
  };
  const session = await throughGate(() => load(name, options));
  const run = session.run.bind(session) as (...args: unknown[]) => Promise<InferenceSession.ReturnType>;
  return Object.assign(session, { run: (...args: unknown[]) => throughGate(() => run(...args)) });
}

async function load(name: NetworkName, options: InferenceSession.SessionOptions): Promise<InferenceSession> {
  const path = fileURLToPath(networkFile(name));
  try {
    return await InferenceSession.create(path, options);
  } catch (cause) {
    throw new Error(`cannot load the network ${path}: run npm run generate`, { cause });
  }
}
