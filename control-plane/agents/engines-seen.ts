import { isCapability } from '#common/capabilities.ts';
import { createWorkQueue, type Reflector } from '#common/kube/index.ts';
import type { Logger } from '#common/logging.ts';
import type { AgentPool } from '#crds/gen/agentpools.ts';
import type { GpuAgent } from '#crds/gen/gpuagents.ts';
import type { Database } from '../storage/database.ts';

export interface EnginesSeenOptions {
  readonly database: Database;
  readonly reflector: Reflector<GpuAgent>;
  readonly pools: Reflector<AgentPool>;
  readonly logger: Logger;
}

/**
 * Gives a capability its engine when a GpuAgent that offers it is first seen; what was never offered answers
 * `capability_unavailable`. Nothing takes it away again: see migration 0014.
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
    // A capability of live streams is offered with its first warm slot.
    for (const { name, slots } of status?.live ?? []) if (slots > 0) note(name);
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
      logger.info(
        { capability: name },
        'an agent, or a pool that starts agents, offers this capability for the first time',
      );
  }

  return {
    /** Works until aborted. */
    run: (signal: AbortSignal): Promise<void> => queue.run(signal),
  };
}
