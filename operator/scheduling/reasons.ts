import { isDraining } from '../agents/view.ts';
import type { WaitingReason } from '../renderjob/types.ts';
import { createCardMemory } from './card-memory.ts';
import { hasSlots, lacksOnlyMemory } from './free-slots.ts';
import { costsOf, parseNeed } from './need.ts';
import type { ScheduledAgent } from './scheduled-agent.ts';

/** Why all jobs that need the same wait. */
export interface Obstacle {
  readonly reason: string;
  /** End of a sentence, without its beginning. */
  readonly message: string;
}

/**
 * Why one job waits. The message is built when it is read: of thousands of jobs few are told at a time, but all
 * reasons are computed every other second.
 */
class Waiting implements WaitingReason {
  readonly #obstacle: Obstacle;
  readonly position: number;
  readonly total: number;

  constructor(obstacle: Obstacle, position: number, total: number) {
    this.#obstacle = obstacle;
    this.position = position;
    this.total = total;
  }

  get reason(): string {
    return this.#obstacle.reason;
  }

  get message(): string {
    return `${ordinal(this.position)} of ${this.total} waiting; ${this.#obstacle.message}`;
  }
}

export function waitingReason(obstacle: Obstacle, position: number, total: number): WaitingReason {
  return new Waiting(obstacle, position, total);
}

/** Returns what pools do about an obstacle, if anything: `PoolScalingUp`, `PoolAtMaximum`, `PoolBlocked`. */
export type PoolWord = (capability: string, others: Obstacle) => Obstacle | undefined;

/**
 * Returns why jobs that need the same wait, in words a person can act on. The reasons, from the most to the least
 * action required: `NoAgents`, `NoAgentForCapability`, `NoAgentWithVoice`, `SlotsTooFew`, `AgentsNotReady`, `AgentsDraining`,
 * `MemoryBusy`, `CardsBusy`, `SlotsBusy`; or that of a pool. A single job may also have `PriorityClassUnknown` or `AccountShare`
 * (explain.ts).
 */
export function obstacleTo(need: string, agents: readonly ScheduledAgent[], pools?: PoolWord): Obstacle {
  const obstacle = obstacleOf(need, agents);
  return pools?.(parseNeed(need).capability, obstacle) ?? obstacle;
}

function obstacleOf(need: string, agents: readonly ScheduledAgent[]): Obstacle {
  const { capability, voice } = parseNeed(need);
  const costIn = costsOf(agents, need);
  const because = (reason: string, message: string) => ({ reason, message });

  if (agents.length === 0) {
    return because('NoAgents', 'no agent has registered. Start one (kubectl get gpuagents).');
  }
  const offering = agents.filter(({ costs }) => costs.has(capability));
  if (offering.length === 0) {
    const offered = [...new Set(agents.flatMap(({ costs }) => [...costs.keys()]))].sort();
    const has = offered.length > 0 ? `they offer ${offered.join(', ')}` : 'they offer nothing';
    return because(
      'NoAgentForCapability',
      `none of ${count(agents.length, 'agent')} has an engine for ${capability}; ${has}.`,
    );
  }
  const able = offering.filter((agent) => costIn(agent) !== undefined);
  if (able.length === 0) {
    return because(
      'NoAgentWithVoice',
      `none of ${count(offering.length, 'agent')} with ${capability} has the voice ${voice}.`,
    );
  }
  const large = able.filter(({ costs, slots }) => (costs.get(capability) ?? 0) <= slots);
  if (large.length === 0) {
    const least = Math.min(...able.map(({ costs }) => costs.get(capability) ?? 0));
    const most = Math.max(...able.map(({ slots }) => slots));
    return because(
      'SlotsTooFew',
      `${capability} takes ${count(least, 'slot')} and no agent has more than ${most}.`,
    );
  }
  const ready = large.filter(({ readiness }) => readiness.ready);
  if (ready.length === 0) {
    const draining = large.filter(({ readiness }) => isDraining(readiness));
    const states = large.map(({ name, readiness }) => `${name}: ${readiness.reason}`);
    return because(
      draining.length === large.length ? 'AgentsDraining' : 'AgentsNotReady',
      `${count(large.length, 'agent')} could take it but ${large.length === 1 ? 'is' : 'are'} not ready (${listed(states)}).`,
    );
  }
  const tight = ready.filter((agent) => lacksOnlyMemory(agent, capability));
  if (tight.length > 0) {
    const left = tight.map(
      ({ name, memory, memoryMib = 0, memoryUsed = 0 }) =>
        `${name}: ${Math.max(0, memoryMib - memoryUsed)} of ${memoryMib} MiB left, it takes ${memory?.get(capability) ?? 0}`,
    );
    return because('MemoryBusy', `slots are free, but not the memory beside what runs (${listed(left)}).`);
  }
  const cards = createCardMemory(agents);
  const crowded = ready.filter(
    (agent) => hasSlots(agent, capability) && !cards.fits(agent, capability) && !agent.paused,
  );
  if (crowded.length > 0) {
    const left = crowded.map((agent) => {
      const { freeMib, totalMib } = cards.left(agent);
      return `${agent.name}: ${freeMib} of ${totalMib} MiB left, it takes ${agent.vram?.get(capability) ?? 0}`;
    });
    return because('CardsBusy', `slots are free, but not the memory of their cards (${listed(left)}).`);
  }
  const slots = ready.reduce((sum, agent) => sum + agent.slots, 0);
  const used = ready.reduce((sum, agent) => sum + Math.min(agent.used, agent.slots), 0);
  const each = Math.min(...ready.map(({ costs }) => costs.get(capability) ?? 1));
  const needs = each > 1 ? `; ${capability} takes ${each} on one agent` : '';
  const others = large.length - ready.length;
  const more = others > 0 ? ` (${count(others, 'more agent')} not ready)` : '';
  return because(
    'SlotsBusy',
    `${used} of ${count(slots, 'slot')} on ${count(ready.length, 'agent')} ${used === 1 ? 'is' : 'are'} busy${more}${needs}.`,
  );
}

/** Returns 1st, 2nd, 3rd, 4th, 11th, 21st, … */
export function ordinal(n: number): string {
  const tens = n % 100;
  const ending = tens >= 11 && tens <= 13 ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th');
  return `${n}${ending}`;
}

function count(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? '' : 's'}`;
}

function listed(items: readonly string[]): string {
  const shown = items.slice(0, 4).join(', ');
  return items.length > 4 ? `${shown} and ${items.length - 4} more` : shown;
}
