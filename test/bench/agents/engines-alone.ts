import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { silentLogger } from '@semblance/common/logging';
import type { Capability } from '@semblance/engine-api/capabilities';
import { type EngineProcess, startEngineProcess } from '@semblance/gpu-agent/engines/host/engine-process';
import { engineSource } from '@semblance/gpu-agent/engines/registry';

/** Work that is rendered repeatedly. */
export interface Sample {
  readonly capability: Capability;
  readonly inputs: Readonly<Record<string, string>>;
}

/**
 * Measures in how many seconds one engine renders a sample `count` times, and in how many two engines share that
 * work. Each engine has a core of its own and nothing runs beside them, so this shows what two cores of the machine
 * give.
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
    // The warm-up is as long as a measurement, because code compiled during one would make the other look faster.
    await timed(() => count / 2);
    return {
      one: await timed((engine) => (engine === engines[0] ? count : 0)),
      two: await timed(() => count / 2),
    };
  } finally {
    for (const engine of engines) await engine.close();
  }
}
