import type { AgentView } from '../agents/view.ts';

/** An agent as the scheduler counts on it. */
export interface ScheduledAgent extends Omit<AgentView, 'live' | 'address'> {
  /** Slots taken by work bound to it. */
  readonly used: number;
  /** Memory that this work takes at most, in MiB. Default 0. */
  readonly memoryUsed?: number;
  /** Refused work a moment ago: nothing new before the pause is over. */
  readonly paused?: boolean;
}

/**
 * `spread`: the agent with the most free slots, so that what runs has the most of a machine. `pack`: with the fewest.
 */
export type Packing = 'spread' | 'pack';

/** Holds what is free in the course of one pass over the queue. */
export interface FreeSlots {
  /** Returns where a job of the capability goes now; undefined: nowhere. */
  best(capability: string): ScheduledAgent | undefined;
  take(agent: ScheduledAgent, capability: string): void;
  /**
   * No agent has the slots now: keeps the one that is nearest to having them, so that small jobs cannot starve one that
   * takes several slots.
   */
  reserve(capability: string): void;
}

interface Free {
  readonly agent: ScheduledAgent;
  slots: number;
  /** Undefined: the agent does not say what it has. */
  memory: number | undefined;
  empty: boolean;
}

export function createFreeSlots(agents: readonly ScheduledAgent[], packing: Packing = 'spread'): FreeSlots {
  const all = agents.map((agent): Free => {
    const { slots, used, memoryMib, memoryUsed = 0 } = agent;
    return {
      agent,
      slots: Math.max(0, slots - used),
      memory: memoryMib === undefined ? undefined : memoryMib - memoryUsed,
      empty: used === 0,
    };
  });
  const ofAgent = new Map(all.map((free) => [free.agent, free]));
  const able = new Map<string, Free[]>();
  const sign = packing === 'pack' ? -1 : 1;

  function ableTo(capability: string): Free[] {
    const known = able.get(capability);
    if (known) return known;
    const found = all.filter(({ agent: { costs, readiness, slots } }) => {
      const cost = costs.get(capability);
      return readiness.ready && cost !== undefined && cost <= slots;
    });
    able.set(capability, found);
    return found;
  }

  function best(capability: string): Free | undefined {
    let chosen: Free | undefined;
    for (const free of ableTo(capability)) {
      if (free.slots < (free.agent.costs.get(capability) ?? 0) || !fits(free, capability)) continue;
      if (chosen && sign * (free.slots - chosen.slots) <= 0) continue;
      if (!free.agent.paused) chosen = free;
    }
    return chosen;
  }

  return {
    best: (capability) => best(capability)?.agent,
    take(agent, capability) {
      const free = ofAgent.get(agent);
      if (!free) return;
      free.slots -= agent.costs.get(capability) ?? 0;
      if (free.memory !== undefined) free.memory -= agent.memory?.get(capability) ?? 0;
      free.empty = false;
    },
    reserve(capability) {
      let nearest: Free | undefined;
      for (const free of ableTo(capability)) if (!nearest || free.slots > nearest.slots) nearest = free;
      if (nearest && (nearest.agent.costs.get(capability) ?? 1) > 1) nearest.slots = 0;
    },
  };
}

/**
 * Tells whether its memory goes into what is left beside the work that runs. An agent without work takes any job:
 * what an engine says a render takes is the most it can take, and must not keep one from ever being tried.
 */
function fits({ agent, memory, empty }: Free, capability: string): boolean {
  return memory === undefined || empty || (agent.memory?.get(capability) ?? 0) <= memory;
}

/** Tells whether slots are free for it and only memory is not. */
export function lacksOnlyMemory(agent: ScheduledAgent, capability: string): boolean {
  const { slots, used, memoryMib, memoryUsed = 0 } = agent;
  const cost = agent.costs.get(capability);
  if (cost === undefined || !agent.readiness.ready || slots - used < cost) return false;
  const memory = memoryMib === undefined ? undefined : memoryMib - memoryUsed;
  return !fits({ agent, slots: slots - used, memory, empty: used === 0 }, capability);
}
