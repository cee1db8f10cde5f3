import { isLive, rendersPerAgent } from './scaling.ts';
import type { Demand, PoolPod, Profile } from './types.ts';
import { isReady } from './types.ts';

/** A pool in the division of the demand. */
export interface Bidder {
  readonly name: string;
  readonly profile: Profile;
  readonly pods: readonly PoolPod[];
  /** Most agents that the pool may start by itself; undefined: it does not grow by demand. */
  readonly max: number | undefined;
  /** The pool cannot start agents at present. */
  readonly blocked: boolean;
}

/**
 * Divides the waiting work among the pools, in order of their names, so that nothing counts twice. It goes first to
 * free slots, then to the room in which each pool may still grow. A pool that cannot start agents is passed over.
 *
 * Work without room goes to two pools with the capability. The first that grows by demand can then report what its
 * maximum costs. The first that does not grow by itself shows it in its metrics, for whoever scales it.
 */
export function shareDemand(demand: Demand, bidders: readonly Bidder[]): Map<string, Demand> {
  const pools = bidders.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const shares = new Map(
    pools.map(({ name }) => {
      const none = () => new Map<string, number>();
      return [name, { jobs: none(), passedOver: none(), opens: none() }];
    }),
  );
  const rooms = new Map(pools.map((pool) => [pool.name, roomOf(pool)]));

  const share = (capability: string, count: number, kind: 'jobs' | 'opens') => {
    const able = pools.filter(
      ({ profile }) =>
        profile.capabilities.has(capability) &&
        (isLive(capability) || rendersPerAgent(profile, capability) > 0),
    );
    // A job that was passed over needs more than a free slot.
    let late = kind === 'jobs' ? Math.min(count, demand.passedOver.get(capability) ?? 0) : 0;
    let left = count - late;
    const add = (to: Map<string, number> | undefined, taken: number) =>
      to?.set(capability, (to.get(capability) ?? 0) + taken);
    const give = (pool: Bidder | undefined, taken: number, passedOver: number) => {
      const mine = pool && taken > 0 ? shares.get(pool.name) : undefined;
      add(mine?.[kind], taken);
      if (passedOver > 0) add(mine?.passedOver, passedOver);
    };
    for (const stage of ['free', 'growth'] as const) {
      if (stage === 'growth') left += late;
      for (const pool of able) {
        const room = rooms.get(pool.name)?.[stage];
        if (!room) continue;
        const granted = room(capability, left);
        left -= granted;
        const passedOver = stage === 'growth' ? Math.min(granted, late) : 0;
        late -= passedOver;
        give(pool, granted, passedOver);
      }
    }
    const growing = able.filter(({ max }) => max !== undefined);
    give(growing.find(({ blocked }) => !blocked) ?? growing[0], left, late);
    const scaledByOthers = able.find(({ max }) => max === undefined);
    give(scaledByOthers, left, late);
  };
  for (const [capability, count] of demand.jobs) share(capability, count, 'jobs');
  for (const [capability, count] of demand.opens) share(capability, count, 'opens');
  return shares;
}

/** Takes up to `asked` units out of the room. @returns how many it took */
type Room = (capability: string, asked: number) => number;

function roomOf({ profile, pods, max, blocked }: Bidder): { free: Room; growth: Room } {
  const ready = pods.filter(isReady);
  let renders = 0;
  const live = new Map<string, number>();
  for (const { agent } of ready) {
    renders += agent?.used ?? 0;
    for (const [capability, { used }] of agent?.live ?? [])
      live.set(capability, (live.get(capability) ?? 0) + used);
  }
  const growing = blocked || max === undefined ? 0 : Math.max(0, max - ready.length);
  // Agents that are still to come run nothing.
  return {
    free: roomIn(profile, ready.length, renders, live),
    growth: roomIn(profile, growing, 0, new Map()),
  };
}

function roomIn(profile: Profile, agents: number, renders: number, live: ReadonlyMap<string, number>): Room {
  let slots = Math.max(0, agents * profile.slots - renders);
  const sessions = new Map<string, number>();
  return (capability, asked) => {
    if (isLive(capability)) {
      const all = agents * Math.max(1, profile.live.get(capability) ?? 1);
      const left = sessions.get(capability) ?? Math.max(0, all - (live.get(capability) ?? 0));
      const granted = Math.min(asked, left);
      sessions.set(capability, left - granted);
      return granted;
    }
    const cost = profile.costs.get(capability) ?? 1;
    const granted = Math.min(asked, Math.floor(slots / cost));
    slots -= granted * cost;
    return granted;
  };
}
