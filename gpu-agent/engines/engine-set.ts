import {
  type OwnerOptions,
  type OwnerOptionsByCapability,
  ownerFault,
  ownerOptionsOf,
} from '@semblance/common/owner-options';
import type { Capability } from '@semblance/engine-api/capabilities';
import type { EngineCapability, UnavailableCapability } from '@semblance/engine-api/engine';
import type { EnginePool } from './host/engine-pool.ts';

/** The engine of a capability, the slots that one of its renders takes, and what the owner says of its options. */
export interface ChosenEngine {
  readonly pool: EnginePool;
  readonly offer: EngineCapability;
  readonly slots: number;
  readonly owner: OwnerOptions;
}

/** The engines of this agent in order of preference. */
export interface EngineSet {
  /** Returns the first warm engine with the capability whose processes are alive or restarting. */
  find(capability: Capability): ChosenEngine | undefined;
  /** Returns the offers of the pool's engine that are usable here; none while the engine is down. */
  offers(pool: EnginePool): readonly EngineCapability[];
  /** Returns what the owner says of the options of a capability. */
  ownerOf(capability: Capability): OwnerOptions;
  /**
   * Capabilities that an engine supports but none can offer here, each with the reason, such as a missing program, or
   * options of the owner that the engine does not have.
   */
  readonly unavailable: readonly UnavailableCapability[];
  /** Tells whether an engine offered the capability before and is down now. */
  misses(capability: Capability): boolean;
  /**
   * Returns the slots that one render of the pool takes: the engine's own number, or more, so that the agent never
   * accepts more renders than the pool can hold. Such renders would wait here while another agent is free.
   */
  slotsOf(pool: EnginePool, offer: EngineCapability): number;
  /** Usable slots now: the configured number, but at most what warm processes hold. */
  readonly capacity: number;
  readonly pools: readonly EnginePool[];
  /** Why a device that an engine needs is unusable; undefined when all are usable. */
  readonly deviceTrouble: string | undefined;
  /** Why no engine is warm; undefined when one is. */
  readonly trouble: string | undefined;
  close(): Promise<void>;
}

export function createEngineSet(options: {
  readonly pools: readonly EnginePool[];
  readonly slots: number;
  /** Returns why a capability of the engines is not offered here. Default: it is offered. */
  readonly obstacle?: (capability: Capability) => string | undefined;
  /** Default: the owner says nothing. */
  readonly ownerOptions?: OwnerOptionsByCapability;
}): EngineSet {
  const { pools, slots, obstacle = () => undefined, ownerOptions = {} } = options;
  /**
   * Returns the device fault of the engine that offered the capability. No other engine replaces it, because its
   * results would differ unasked.
   */
  const deviceTrouble = (capability: Capability) =>
    pools.find(
      (pool) =>
        pool.deviceTrouble !== undefined &&
        pool.known?.capabilities.some((each) => each.capability === capability),
    )?.deviceTrouble;
  const usable = (capability: Capability) =>
    obstacle(capability) === undefined && deviceTrouble(capability) === undefined;
  const ownerOf = (capability: Capability) => ownerOptionsOf(ownerOptions, capability);
  const optionTrouble = (engine: string, offer: EngineCapability) =>
    ownerFault(engine, offer.capability, ownerOf(offer.capability), offer.options);
  const capacityOf = (held: (pool: EnginePool) => number) => Math.min(slots, Math.max(0, ...pools.map(held)));

  function slotsOf(pool: EnginePool, offer: EngineCapability): number {
    // All processes are counted as warm, so that a restart does not change the cost of a render.
    const all = capacityOf((each) => each.places);
    const own = Math.max(1, Math.round(offer.slots));
    const alone = Math.floor(all / (pool.places + 1)) + 1;
    // The minimum is at most the present capacity, so that one render fits while other processes are down.
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
    pool.engine?.capabilities.filter(
      (offer) => usable(offer.capability) && optionTrouble(pool.engine?.name ?? '', offer) === undefined,
    ) ?? [];

  return {
    pools,
    offers,
    ownerOf,
    get unavailable() {
      const missing = new Map<Capability, string>();
      for (const { engine } of pools) {
        for (const offer of engine?.capabilities ?? []) {
          const message = obstacle(offer.capability) ?? optionTrouble(engine?.name ?? '', offer);
          if (message !== undefined) missing.set(offer.capability, message);
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
      for (const pool of pools) {
        const offer = offers(pool).find((candidate) => candidate.capability === capability);
        if (offer) return { pool, offer, slots: slotsOf(pool, offer), owner: ownerOf(capability) };
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
