import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { silentLogger } from '@semblance/common/logging';
import type { Capability } from '@semblance/engine-api/capabilities';
import { type EngineProcess, startEngineProcess } from '@semblance/gpu-agent/engines/host/engine-process';
import { engineSource } from '@semblance/gpu-agent/engines/registry';

/** What is rendered, again and again. */
export interface Sample {
  readonly capability: Capability;
  readonly inputs: Readonly<Record<string, string>>;
}

/**
 * Seconds in which one engine makes so many of a sample, and two share them, each engine on a core of its own and
 * nothing else beside them: what the cores of this machine give when both are used.
 */
export async function enginesAlone(
  sample: Sample,
  count: number,
  dir: string,
): Promise<{ one: number; two: number }> {
  const { signal } = new AbortController();
  const engines: EngineProcess[] = [];
  try {
    for (const core of [0, 1]) {
      const tempDir = join(dir, `engine-${core}`);
      await mkdir(tempDir, { recursive: true });
      const engine = await startEngineProcess({
        setup: { source: engineSource('builtin'), options: { threads: 1 } },
        tempDir,
        logger: silentLogger(),
        warmUpTimeoutMs: 120_000,
        cancelGraceMs: 1_000,
        signal,
      });
      engines.push(engine);
      await promisify(execFile)('taskset', ['-acp', String(core), String(engine.pid)]);
    }
    let outputs = 0;
    const work = async (engine: EngineProcess, times: number) => {
      for (let i = 0; i < times; i++) {
        const outputDir = join(dir, `alone-${++outputs}`);
        await mkdir(outputDir);
        await engine.render(
          { ...sample, parameters: {}, outputDir },
          { signal, onProgress: () => undefined },
        );
      }
    };
    const timed = async (each: (engine: EngineProcess) => number) => {
      const began = performance.now();
      await Promise.all(engines.map((engine) => work(engine, each(engine))));
      return (performance.now() - began) / 1_000;
    };
    // As long as it is measured for: code that is compiled meanwhile makes one of the two look quicker.
    await timed(() => count / 2);
    return {
      one: await timed((engine) => (engine === engines[0] ? count : 0)),
      two: await timed(() => count / 2),
    };
  } finally {
    for (const engine of engines) await engine.close();
  }
}
