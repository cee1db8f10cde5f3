/**
 * Main module of a process that starts an engine process, lets it block its main thread, prints its pid, and waits
 * to be killed. Argument: a folder for temporary files.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@semblance/common/logging';
import { startEngineProcess } from '@semblance/gpu-agent/engines/host/engine-process';
import { TEST_ENGINE } from './test-engine.ts';

const dir = process.argv[2] ?? '';
const engine = await startEngineProcess({
  setup: { source: TEST_ENGINE, options: { threads: 1 } },
  tempDir: dir,
  logger: silentLogger(),
  warmUpTimeoutMs: 100_000,
  cancelGraceMs: 1_000,
  signal: new AbortController().signal,
});
const mode = process.argv[3] ?? 'slow';
void engine
  .render(
    { capability: 'face-swap-image', inputs: {}, parameters: { mode }, outputDir: dir },
    { signal: new AbortController().signal, onProgress: () => console.log(engine.pid) },
  )
  .catch(() => {});
await delay(60_000);
