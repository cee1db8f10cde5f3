import type { ScheduledAgent } from './scheduled-agent.ts';

/** Memory of the agents' cards during one pass over the queue, as the engines state what they take. */
export interface CardMemory {
  /**
   * Returns whether a render's memory fits on the agent's cards, beside what engines hold there and what renders of
   * all agents of these cards take. Cards on which no render runs take any: engines state the most that a render can
   * take, which must not keep a job from ever being tried.
   */
  fits(agent: ScheduledAgent, capability: string): boolean;
  take(agent: ScheduledAgent, capability: string): void;
  /** Returns what is left on the agent's cards, and the whole of them, in MiB. */
  left(agent: ScheduledAgent): { readonly freeMib: number; readonly totalMib: number };
}

/** @param agents all agents; those that show a card of the same UUID share it */
export function createCardMemory(agents: readonly ScheduledAgent[]): CardMemory {
  const taken = new Map(agents.map((agent) => [agent, agent.vramUsed ?? 0]));
  const byCard = new Map<string, ScheduledAgent[]>();
  for (const agent of agents) {
    // A process that is gone holds nothing.
    if (agent.readiness.reason === 'HeartbeatLost' || agent.readiness.reason === 'NotRegistered') continue;
    for (const { uuid } of agent.cards ?? []) {
      const sharers = byCard.get(uuid) ?? [];
      sharers.push(agent);
      byCard.set(uuid, sharers);
    }
  }

  function look(agent: ScheduledAgent): { totalMib: number; heldMib: number; rendersMib: number } {
    const cards = agent.cards ?? [];
    const sharers = new Set([agent, ...cards.flatMap(({ uuid }) => byCard.get(uuid) ?? [])]);
    const sum = (of: (each: ScheduledAgent) => number) =>
      [...sharers].reduce((all, each) => all + of(each), 0);
    return {
      totalMib: cards.reduce((all, { totalMib }) => all + totalMib, 0),
      heldMib: sum(({ vramHeldMib = 0 }) => vramHeldMib),
      rendersMib: sum((each) => taken.get(each) ?? 0),
    };
  }

  return {
    fits(agent, capability) {
      const need = agent.vram?.get(capability) ?? 0;
      if (need === 0 || !agent.cards?.length) return true;
      const { totalMib, heldMib, rendersMib } = look(agent);
      return rendersMib === 0 || heldMib + rendersMib + need <= totalMib;
    },
    take(agent, capability) {
      taken.set(agent, (taken.get(agent) ?? 0) + (agent.vram?.get(capability) ?? 0));
    },
    left(agent) {
      const { totalMib, heldMib, rendersMib } = look(agent);
      return { freeMib: Math.max(0, totalMib - heldMib - rendersMib), totalMib };
    },
  };
}
