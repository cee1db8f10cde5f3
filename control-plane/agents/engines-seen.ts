import { isCapability } from '#common/capabilities.ts';
import { createWorkQueue, type Reflector } from '#common/kube/index.ts';
import type { Logger } from '#common/logging.ts';
import type { GpuAgent } from '#crds/gen/gpuagents.ts';
import type { Database } from '../storage/database.ts';

export interface EnginesSeenOptions {
  readonly database: Database;
  readonly reflector: Reflector<GpuAgent>;
  readonly logger: Logger;
}

/**
 * Gives a capability its engine when a GpuAgent that offers it is first seen; what was never offered answers
 * `capability_unavailable`. Nothing takes it away again: see migration 0014.
 */
export function createEnginesSeen({ database, reflector, logger }: EnginesSeenOptions) {
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

  async function process(name: string): Promise<undefined> {
    if (noted.has(name)) return;
    const rows = await database.fast<{ note_engines: string }[]>`select note_engines(${[name]}::text[])`;
    noted.add(name);
    if (rows.length > 0)
      logger.info({ capability: name }, 'an agent offers this capability for the first time');
  }

  return {
    /** Works until aborted. */
    run: (signal: AbortSignal): Promise<void> => queue.run(signal),
  };
}
