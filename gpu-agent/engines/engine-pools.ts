import type { Logger } from '@semblance/common/logging';
import type { EngineMemory } from '../cards/cards.ts';
import { createEnginePool, type EnginePool } from './host/engine-pool.ts';
import type { EngineSource } from './registry.ts';

/**
 * Creates the pool of each engine. It has one process per slot, or one for all slots when the engine is remote or
 * shares its memory.
 */
export function createEnginePools(options: {
  readonly sources: readonly EngineSource[];
  readonly slots: number;
  readonly tempDir: string;
  /** Nice value of the processes. */
  readonly nice: number;
  /** Time for a cancelled render to end, in ms. Default: that of the pools. */
  readonly cancelGraceMs?: number | undefined;
  readonly memory: EngineMemory | undefined;
  readonly logger: Logger;
  readonly onChange: () => void;
  readonly onCrash: (engine: string) => void;
}): EnginePool[] {
  const { slots, tempDir, cancelGraceMs, logger, onChange } = options;
  return options.sources.map((source) => {
    const oneProcess = source.remote || source.shared;
    return createEnginePool({
      setup: {
        source,
        options: {
          threads: source.shared ? slots : 1,
          ...(source.settings ? { settings: source.settings } : {}),
        },
      },
      processes: oneProcess ? 1 : slots,
      rendersPerProcess: oneProcess ? slots : 1,
      offeredWhileDown: !source.remote,
      // Waiting for a remote program costs nothing, and large models load slowly.
      ...(oneProcess ? { warmUpTimeoutMs: 900_000 } : {}),
      tempDir,
      nice: options.nice,
      ...(cancelGraceMs === undefined ? {} : { cancelGraceMs }),
      // Others would be taken for the process that comes to the card while they start.
      memory: source.usesCards ? options.memory : undefined,
      logger,
      onChange,
      onCrash: () => options.onCrash(source.name),
    });
  });
}
