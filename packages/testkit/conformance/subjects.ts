import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@semblance/common/logging';
import type { Engine } from '@semblance/engine-api/engine';
import type { InspectWork } from '@semblance/engine-api/render-work';
import { ofEngine, type StartSubject } from '@semblance/gpu-agent/conformance/subject';
import { createEnginePool } from '@semblance/gpu-agent/engines/host/engine-pool';
import type { EngineSource } from '@semblance/gpu-agent/engines/registry';

/** Runs the engine in this process. */
export function inProcess(create: () => Engine | Promise<Engine>): StartSubject {
  return async ({ signal }) => {
    const engine = await create();
    await engine.warmUp(signal);
    return ofEngine(engine);
  };
}

/** Runs the engine in separate processes, as the agent does. */
export function hosted(source: EngineSource, processes = 2): StartSubject {
  return async ({ dir }) => {
    const tempDir = join(dir, 'engine-processes');
    await mkdir(tempDir, { recursive: true });
    const pool = createEnginePool({
      setup: { source, options: { threads: 1, ...(source.settings ? { settings: source.settings } : {}) } },
      processes,
      rendersPerProcess: 1,
      tempDir,
      logger: silentLogger(),
      restartDelayMs: () => 50,
      // The engine itself must end a cancelled render; a kill would hide its failure.
      cancelGraceMs: 60_000,
    });
    const info = await pool.firstReady();
    const restarted = async () => {
      while (pool.capacity < processes) await delay(20);
    };
    await restarted();
    return {
      info,
      places: processes,
      render: (work, options) => pool.render(work, options),
      ...(info.inspects
        ? { inspect: (work: InspectWork, signal: AbortSignal) => pool.inspect(work, signal) }
        : {}),
      isolated: true,
      restarted,
      crash() {
        const busy = pool.warm.find((each) => each.busy > 0);
        if (busy) process.kill(busy.pid, 'SIGKILL');
      },
      close: () => pool.close(),
    };
  };
}
