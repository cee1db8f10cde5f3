import { createCardMemory } from './card-memory.ts';
import { costsOf, parseNeed } from './need.ts';
import type { ScheduledAgent } from './scheduled-agent.ts';

/**
 * `spread`: the agent with the most free slots, so that work gets the most of a machine. `pack`: the one with the fewest.
 */
export type Packing = 'spread' | 'pack';

/** What is free during one pass over the queue. */
export interface FreeSlots {
  /**
   * Returns the agent for a job, if one has room.
   * @param need what it needs, see `needOf`
   * @param avoided name of an agent that is chosen only if no other has room
   */
  best(need: string, avoided?: string): ScheduledAgent | undefined;
  take(agent: ScheduledAgent, capability: string): void;
  /** Keeps the agent nearest to having enough slots, so that small jobs cannot starve one that takes several. */
  reserve(need: string): void;
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
  const cards = createCardMemory(agents);
  const ofAgent = new Map(all.map((free) => [free.agent, free]));
  const able = new Map<string, Free[]>();
  const sign = packing === 'pack' ? -1 : 1;

  function ableTo(need: string): Free[] {
    const known = able.get(need);
    if (known) return known;
    const costs = costsOf(agents, need);
    const found = all.filter(({ agent }) => {
      const cost = costs(agent);
      return agent.readiness.ready && cost !== undefined && cost <= agent.slots;
    });
    able.set(need, found);
    return found;
  }

  function best(need: string, avoided?: string): Free | undefined {
    const { capability } = parseNeed(need);
    let chosen: Free | undefined;
    let last: Free | undefined;
    for (const free of ableTo(need)) {
      if (free.slots < (free.agent.costs.get(capability) ?? 0) || !fits(free, capability)) continue;
      if (free.agent.paused || !cards.fits(free.agent, capability)) continue;
      if (free.agent.name === avoided) last = free;
      else if (!chosen || sign * (free.slots - chosen.slots) > 0) chosen = free;
    }
    return chosen ?? last;
  }

  return {
    best: (need, avoided) => best(need, avoided)?.agent,
    take(agent, capability) {
      const free = ofAgent.get(agent);
      if (!free) return;
      free.slots -= agent.costs.get(capability) ?? 0;
      if (free.memory !== undefined) free.memory -= agent.memory?.get(capability) ?? 0;
      cards.take(agent, capability);
      free.empty = false;
    },
    reserve(need) {
      const { capability } = parseNeed(need);
      let nearest: Free | undefined;
      for (const free of ableTo(need)) if (!nearest || free.slots > nearest.slots) nearest = free;
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

/** Returns whether the agent is ready and slots are free for the capability. */
export function hasSlots({ costs, readiness, slots, used }: ScheduledAgent, capability: string): boolean {
  const cost = costs.get(capability);
  return cost !== undefined && readiness.ready && slots - used >= cost;
}

/** Returns whether slots are free for the capability and only memory is short. */
export function lacksOnlyMemory(agent: ScheduledAgent, capability: string): boolean {
  const { slots, used, memoryMib, memoryUsed = 0 } = agent;
  if (!hasSlots(agent, capability)) return false;
  const memory = memoryMib === undefined ? undefined : memoryMib - memoryUsed;
  return !fits({ agent, slots: slots - used, memory, empty: used === 0 }, capability);
}
