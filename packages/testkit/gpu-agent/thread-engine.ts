import type { Engine } from '@semblance/engine-api/engine';
import type { FactoryOptions } from '@semblance/engine-api/factory-options';
import { WorkerPool } from '@semblance/engine-builtin/internal/pool/worker-pool';
import type { EngineSource } from '@semblance/gpu-agent/engines/registry';

/**
 * Engine that renders in threads as `builtin` does; with the parameter `mode` of `die` the threads end by
 * themselves.
 */
export const THREAD_ENGINE: EngineSource = {
  name: 'threads',
  module: import.meta.url,
  factory: 'createThreadEngine',
};

const THREAD = `
import { copyFileSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import { threadStarted } from '${new URL('../../vision/models/thread-gate.ts', import.meta.url)}';
threadStarted();
parentPort.on('message', ({ type, id, work }) => {
  if (type === 'warm-up') return parentPort.postMessage({ type: 'done', id, result: null });
  if (work.parameters.mode === 'die') process.exit(7);
  const outputPath = work.outputDir + '/out.png';
  copyFileSync(work.inputs.image, outputPath);
  const units = { unit: 'image', quantity: 1 };
  const result = { outputPath, contentType: 'image/png', units, stages: [], details: {} };
  parentPort.postMessage({ type: 'done', id, result });
});
`;

export function createThreadEngine({ threads }: FactoryOptions): Engine {
  const pool = new WorkerPool({
    threads,
    onCrash: () => {},
    entry: new URL(`data:text/javascript,${encodeURIComponent(THREAD)}`),
  });
  return {
    name: 'threads',
    version: '1',
    capabilities: [{ capability: 'face-swap-image', slots: 1, memoryMib: 64 }],
    warmUp: (signal) => pool.warmUp(signal),
    render: ({ signal, onProgress, ...work }) => pool.render(work, signal, onProgress),
    close: () => pool.close(),
  };
}
