import type { Capability } from '@semblance/engine-api/capabilities';
import type { EngineCapability, UnavailableCapability } from '@semblance/engine-api/engine';
import type { EnginePool } from './host/engine-pool.ts';

/** The engine that does a capability, and the slots one render takes of it. */
export interface ChosenEngine {
  readonly pool: EnginePool;
  readonly offer: EngineCapability;
  readonly slots: number;
}

/** The engines of this agent, in the order in which they are preferred. */
export interface EngineSet {
  /** The first warmed-up engine that does the capability, its processes alive or just being restarted. */
  find(capability: Capability): ChosenEngine | undefined;
  /** Returns what the pool's engine does and can be used here; nothing while the engine is down. */
  offers(pool: EnginePool): readonly EngineCapability[];
  /** States what engines would do and none of them can do here, with what is missing. */
  readonly unavailable: readonly UnavailableCapability[];
  /** Tells whether an engine did the capability before, and is down now. */
  misses(capability: Capability): boolean;
  /**
   * Slots that one render of the pool takes: what its engine says, and so many that no more renders fit into the agent
   * than the pool can hold. Otherwise they would wait for each other here while another agent is free.
   */
  slotsOf(pool: EnginePool, offer: EngineCapability): number;
  /** Slots that can be used now: those configured, and no more than warm processes hold. */
  readonly capacity: number;
  readonly pools: readonly EnginePool[];
  /** Why a device that an engine needs cannot be used. */
  readonly deviceTrouble: string | undefined;
  /** Why no engine is warm; undefined when one is. */
  readonly trouble: string | undefined;
  close(): Promise<void>;
}

export function createEngineSet(options: {
  readonly pools: readonly EnginePool[];
  readonly slots: number;
  /** Why what engines do of a capability is not offered: nothing here could be made of it. Default: it is. */
  readonly obstacle?: (capability: Capability) => string | undefined;
}): EngineSet {
  const { pools, slots, obstacle = () => undefined } = options;
  /**
   * Returns the device fault of the engine that offered the capability. No other engine takes over: its results would
   * differ, and nobody asked for that.
   */
  const deviceTrouble = (capability: Capability) =>
    pools.find(
      (pool) =>
        pool.deviceTrouble !== undefined &&
        pool.known?.capabilities.some((each) => each.capability === capability),
    )?.deviceTrouble;
  const usable = (capability: Capability) =>
    obstacle(capability) === undefined && deviceTrouble(capability) === undefined;
  const capacityOf = (held: (pool: EnginePool) => number) => Math.min(slots, Math.max(0, ...pools.map(held)));

  function slotsOf(pool: EnginePool, offer: EngineCapability): number {
    // Counted by what all processes hold when they are warm, so that a restart does not change what a render costs.
    const all = capacityOf((each) => each.places);
    const own = Math.max(1, Math.round(offer.slots));
    const alone = Math.floor(all / (pool.places + 1)) + 1;
    // Never more than there are now: while others are down, one render at a time is few enough.
    return Math.max(
      own,
      Math.min(
        alone,
        Math.max(
          1,
          capacityOf((each) => each.capacity),
        ),
      ),
    );
  }

  const offers = (pool: EnginePool) =>
    pool.engine?.capabilities.filter(({ capability }) => usable(capability)) ?? [];

  return {
    pools,
    offers,
    get unavailable() {
      const missing = new Map<Capability, string>();
      for (const { engine } of pools) {
        for (const { capability } of engine?.capabilities ?? []) {
          const message = obstacle(capability);
          if (message !== undefined) missing.set(capability, message);
        }
        for (const { capability, message } of engine?.unavailable ?? []) missing.set(capability, message);
      }
      for (const { capability } of pools.flatMap(({ known }) => known?.capabilities ?? [])) {
        const message = deviceTrouble(capability);
        if (message !== undefined) missing.set(capability, message);
      }
      for (const { capability } of pools.flatMap(offers)) missing.delete(capability);
      return [...missing].map(([capability, message]) => ({ capability, message }));
    },
    find(capability) {
      if (!usable(capability)) return undefined;
      for (const pool of pools) {
        const offer = pool.engine?.capabilities.find((candidate) => candidate.capability === capability);
        if (offer) return { pool, offer, slots: slotsOf(pool, offer) };
      }
      return undefined;
    },
    misses: (capability) =>
      obstacle(capability) === undefined &&
      pools.some(
        ({ engine, known }) =>
          !engine && known?.capabilities.some((offer) => offer.capability === capability),
      ),
    slotsOf,
    get capacity() {
      return capacityOf((pool) => pool.capacity);
    },
    get deviceTrouble() {
      return pools.find((pool) => pool.deviceTrouble !== undefined)?.deviceTrouble;
    },
    get trouble() {
      return pools.find((pool) => pool.trouble !== undefined)?.trouble;
    },
    async close() {
      await Promise.all(pools.map((pool) => pool.close()));
    },
  };
}
