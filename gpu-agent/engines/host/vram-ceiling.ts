import type { Logger } from '@semblance/common/logging';
import type { EngineMemory } from '../../cards/cards.ts';
import type { EngineProcess } from './engine-process.ts';

export interface VramCeilingOptions {
  readonly memory: EngineMemory;
  /** In MiB. */
  readonly ceilingMib: number;
  readonly process: EngineProcess;
  readonly logger: Logger;
  /** Called when the process takes no more work. */
  readonly onRetire: () => void;
}

/**
 * Retires a warm process once it holds more of the cards than the ceiling: the arenas of its runtime never give
 * anything back. Returns the function that ends the watch.
 */
export function keepBelowCeiling(options: VramCeilingOptions): () => void {
  const { memory, ceilingMib, process, logger, onRetire } = options;
  const facts = { engine: process.engine.name, enginePid: process.pid, ceilingMib };
  const warmMib = memory.vramOf(process.pid);
  if (warmMib === undefined)
    logger.error(
      facts,
      'the ceiling of the memory on the cards has no effect: that of the engine is not known',
    );
  else if (warmMib > ceilingMib)
    // Its successor would hold as much, and none would ever render.
    logger.error(
      { ...facts, vramMib: warmMib },
      'the ceiling of the memory on the cards has no effect: the models alone take more',
    );
  if (warmMib === undefined || warmMib > ceilingMib) return () => {};
  const end = memory.onReading(() => {
    const vramMib = memory.vramOf(process.pid);
    if (vramMib === undefined || vramMib <= ceilingMib) return;
    end();
    logger.info({ ...facts, vramMib }, 'the engine holds too much of the cards: it ends after its renders');
    process.retire(`it held ${vramMib} MiB of the cards, more than the ceiling of ${ceilingMib} MiB`);
    onRetire();
  });
  return end;
}
