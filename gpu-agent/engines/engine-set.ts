import type { Capability } from '#common/capabilities.ts';
import type { EnginePool } from './host/engine-pool.ts';

/** The engine that does a capability, and the slots one render takes of it. */
export interface ChosenEngine {
  readonly pool: EnginePool;
  readonly slots: number;
}

/** The engines of this agent, in the order in which they are preferred. */
export interface EngineSet {
  /** The first warmed-up engine that does the capability, its processes alive or just being restarted. */
  find(capability: Capability): ChosenEngine | undefined;
  /** Slots that can be used now: those configured, and no more than warm processes hold. */
  readonly capacity: number;
  readonly pools: readonly EnginePool[];
  /** Why no engine is warm; undefined when one is. */
  readonly trouble: string | undefined;
  close(): Promise<void>;
}

export function createEngineSet(options: { pools: readonly EnginePool[]; slots: number }): EngineSet {
  const { pools, slots } = options;
  return {
    pools,
    find(capability) {
      for (const pool of pools) {
        const found = pool.engine?.capabilities.find((candidate) => candidate.capability === capability);
        if (found) return { pool, slots: Math.max(1, found.slots) };
      }
      return undefined;
    },
    get capacity() {
      return Math.min(slots, Math.max(0, ...pools.map((pool) => pool.capacity)));
    },
    get trouble() {
      return pools.find((pool) => pool.trouble !== undefined)?.trouble;
    },
    async close() {
      await Promise.all(pools.map((pool) => pool.close()));
    },
  };
}
