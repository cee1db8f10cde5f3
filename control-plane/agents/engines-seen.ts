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
 * Gives a capability its engine when a GpuAgent that offers it is first seen; what was never offered answers
 * `capability_unavailable`. Nothing takes it away again: see table capabilities.
 *
 * A pool that starts its agents when work for them waits stands for them: else that work would never be let in.
 */
export function createEnginesSeen({ database, reflector, pools, logger }: EnginesSeenOptions) {
  const noted = new Set<string>();
  const queue = createWorkQueue({ name: 'engines', concurrency: 1, logger, process, maxDelayMs: 5_000 });

  function observe({ status }: GpuAgent): void {
    for (const { capabilities } of status?.engines ?? []) {
      for (const { name } of capabilities) note(name);
    }
    // One of live streams from the moment its slots warm up: who opens a session then is told that capacity is starting
    // and to come back, where a capability that is off would be given up for good. Engines of jobs are told of only warm.
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
