import { fork } from 'node:child_process';
import { once } from 'node:events';
import { ENGINE_FLAGS } from '@semblance/gpu-agent/engines/host/engine-process';
import type { BenchRow } from './bench-row.ts';

/**
 * Measures the stages of a Photo Swap at 1080p, in a separate process that is started like an engine's.
 * @throws Error when the process ends without an answer
 */
export async function stageTimes(): Promise<BenchRow[]> {
  const child = fork(new URL('./stage-times-main.ts', import.meta.url), { execArgv: [...ENGINE_FLAGS] });
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the render of 1080p ended without times, exit status ${code}`);
  });
  const answered = once(child, 'message').then(([rows]) => rows as BenchRow[]);
  ended.catch(() => {});
  return Promise.race([answered, ended]);
}
