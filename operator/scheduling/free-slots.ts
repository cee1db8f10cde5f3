import type { AgentView } from '../agents/view.ts';

/** An agent as the scheduler counts on it. */
export interface ScheduledAgent extends Omit<AgentView, 'live' | 'address'> {
  /** Slots taken by work bound to the agent. */
  readonly used: number;
  /** Most memory that this work takes, in MiB. Default 0. */
  readonly memoryUsed?: number;
  /** The agent refused work a moment ago; nothing new before the pause is over. */
  readonly paused?: boolean;
}

/**
 * `spread`: the agent with the most free slots, so that work gets the most of a machine. `pack`: the one with the fewest.
 */
export type Packing = 'spread' | 'pack';

/** What is free during one pass over the queue. */
export interface FreeSlots {
  /** Returns the agent for a job of the capability, if one has room. */
  best(capability: string): ScheduledAgent | undefined;
  take(agent: ScheduledAgent, capability: string): void;
  /** Keeps the agent nearest to having enough slots, so that small jobs cannot starve one that takes several. */
  reserve(capability: string): void;
}

interface Free {
  readonly agent: ScheduledAgent;
  slots: number;
  /** Free memory in MiB. Undefined: the agent does not report it. */
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
 * Returns whether the render's memory fits beside the running work. An idle agent takes any job: engines report the
 * most that a render can take, which must not keep a job from ever being tried.
 */
function fits({ agent, memory, empty }: Free, capability: string): boolean {
  return memory === undefined || empty || (agent.memory?.get(capability) ?? 0) <= memory;
}

/** Returns whether slots are free for the capability and only memory is short. */
export function lacksOnlyMemory(agent: ScheduledAgent, capability: string): boolean {
  const { slots, used, memoryMib, memoryUsed = 0 } = agent;
  const cost = agent.costs.get(capability);
  if (cost === undefined || !agent.readiness.ready || slots - used < cost) return false;
  const memory = memoryMib === undefined ? undefined : memoryMib - memoryUsed;
  return !fits({ agent, slots: slots - used, memory, empty: used === 0 }, capability);
}
