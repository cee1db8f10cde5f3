import { createWorkQueue } from '@semblance/common/async/work-queue';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { AgentPool } from '@semblance/crds/gen/agentpools';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { isCapability } from '@semblance/engine-api/capabilities';
import type { Database } from '../storage/database.ts';

export interface EnginesSeenOptions {
  readonly database: Database;
  readonly reflector: Reflector<GpuAgent>;
  readonly pools: Reflector<AgentPool>;
  readonly logger: Logger;
}

/**
 * Enables a capability when a GpuAgent that offers it is first seen; a capability that was never offered answers
 * `capability_unavailable`. Nothing disables it again: see table capabilities.
 *
 * A pool that starts its agents on demand stands for them; otherwise its work would never be admitted.
 */
export function createEnginesSeen({ database, reflector, pools, logger }: EnginesSeenOptions) {
  const noted = new Set<string>();
  const queue = createWorkQueue({ name: 'engines', concurrency: 1, logger, process, maxDelayMs: 5_000 });

  function observe({ status }: GpuAgent): void {
    for (const { capabilities } of status?.engines ?? []) {
      for (const { name } of capabilities) note(name);
    }
    // A live capability counts from the moment its slots warm up: callers are told that capacity is starting, while
    // they would give up a capability that is off. Engines of jobs appear only when warm.
    for (const { name, slots, warming } of status?.live ?? []) if (slots > 0 || warming) note(name);
  }
  function note(name: string): void {
    if (isCapability(name) && !noted.has(name)) queue.add(name);
  }
  reflector.addHandlers({ onAdd: observe, onUpdate: observe });
  const observePool = ({ spec }: AgentPool): void => {
    if (spec.autoscaling) for (const name of spec.capabilities ?? []) note(name);
  };
  pools.addHandlers({ onAdd: observePool, onUpdate: observePool });

  async function process(name: string): Promise<undefined> {
    if (noted.has(name)) return;
    const rows = await database.fast<{ note_engines: string }[]>`select note_engines(${[name]}::text[])`;
    noted.add(name);
    if (rows.length > 0)
      logger.info({ capability: name }, 'an agent or a pool offers this capability for the first time');
  }

  return {
    /** Works until aborted. */
    run: (signal: AbortSignal): Promise<void> => queue.run(signal),
  };
}
