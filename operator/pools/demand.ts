import { isLive, rendersPerAgent } from './scaling.ts';
import type { Demand, PoolPod, Profile } from './types.ts';
import { isReady } from './types.ts';

/** A pool as the sharing out of demand sees it. */
export interface Bidder {
  readonly name: string;
  readonly profile: Profile;
  readonly pods: readonly PoolPod[];
  /** Agents that it may have by itself; undefined: it does not grow by demand. */
  readonly max: number | undefined;
  /** It cannot start agents at present. */
  readonly blocked: boolean;
}

/**
 * Shares out what waits, so that nothing is counted twice: first to free slots that are there, then to what each pool may
 * still grow by, pools in order of their names; one that cannot start agents is passed over. What nobody has room for
 * is told to the first that has the capability and grows, so that it can say what its maximum costs; and to the first
 * that does not grow by itself, so that its metrics tell whoever scales it.
 */
export function shareDemand(demand: Demand, bidders: readonly Bidder[]): Map<string, Demand> {
  const pools = bidders.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const given = new Map(
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
    // Who was passed over needs more than a free slot.
    let late = kind === 'jobs' ? Math.min(count, demand.passedOver.get(capability) ?? 0) : 0;
    let left = count - late;
    const add = (to: Map<string, number> | undefined, taken: number) =>
      to?.set(capability, (to.get(capability) ?? 0) + taken);
    const give = (pool: Bidder | undefined, taken: number, passedOver: number) => {
      const mine = pool && taken > 0 ? given.get(pool.name) : undefined;
      add(mine?.[kind], taken);
      if (passedOver > 0) add(mine?.passedOver, passedOver);
    };
    for (const stage of ['free', 'growth'] as const) {
      if (stage === 'growth') left += late;
      for (const pool of able) {
        const room = rooms.get(pool.name)?.[stage];
        if (!room) continue;
        const taken = room(capability, left);
        left -= taken;
        const passedOver = stage === 'growth' ? Math.min(taken, late) : 0;
        late -= passedOver;
        give(pool, taken, passedOver);
      }
    }
    const growing = able.filter(({ max }) => max !== undefined);
    give(growing.find(({ blocked }) => !blocked) ?? growing[0], left, late);
    const scaledByOthers = able.find(({ max }) => max === undefined);
    give(scaledByOthers, left, late);
  };
  for (const [capability, count] of demand.jobs) share(capability, count, 'jobs');
  for (const [capability, count] of demand.opens) share(capability, count, 'opens');
  return given;
}

/** Takes so many of what is asked for out of the room. @returns how many */
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
  // Nothing runs on agents that are still to come.
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
      const taken = Math.min(asked, left);
      sessions.set(capability, left - taken);
      return taken;
    }
    const cost = profile.costs.get(capability) ?? 1;
    const taken = Math.min(asked, Math.floor(slots / cost));
    slots -= taken * cost;
    return taken;
  };
}
