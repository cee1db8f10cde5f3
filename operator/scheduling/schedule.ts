import type { AgentView } from '../agents/view.ts';
import type { Placement, WaitingReason } from '../renderjob/types.ts';
import { obstacleTo, type PoolWord, waitingReason } from './reasons.ts';

/** A job that competes for a slot. */
export interface WaitingJob {
  readonly uid: string;
  readonly name: string;
  readonly capability: string;
  readonly priority: number;
  /** RFC 3339; the API keeps whole seconds, so names break ties (ours sort by time). */
  readonly createdAt: string;
}

export interface ScheduledAgent extends Omit<AgentView, 'live' | 'address'> {
  /** Slots taken by work bound to it. */
  readonly used: number;
  /** Refused work a moment ago: nothing new before the pause is over. */
  readonly paused?: boolean;
}

export interface Schedule {
  /** By uid. */
  readonly placements: ReadonlyMap<string, Placement>;
  /** By uid, for every job that still waits. */
  readonly waiting: ReadonlyMap<string, WaitingReason>;
}

/** Higher priority first, then older, then by name. */
export function inQueueOrder(a: WaitingJob, b: WaitingJob): number {
  return (
    b.priority - a.priority ||
    compare(a.createdAt, b.createdAt) ||
    compare(a.name, b.name) ||
    compare(a.uid, b.uid)
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * Gives slots to waiting jobs in queue order, each on the agent with the most free slots. A job that no agent can take
 * now never holds up others, with one exception: when a job needs several slots, the agent that is nearest to having
 * them is kept for it, so that a stream of small jobs cannot starve it.
 *
 * Places are counted among the jobs that compete for the same agents.
 */
export function schedule(
  queue: readonly WaitingJob[],
  agents: readonly ScheduledAgent[],
  pools?: PoolWord,
): Schedule {
  const free = new Map(agents.map((agent) => [agent.name, Math.max(0, agent.slots - agent.used)]));
  const usable = new Map<string, ScheduledAgent[]>();
  const usableFor = (capability: string) => {
    const known = usable.get(capability);
    if (known) return known;
    const found = agents.filter((agent) => {
      const cost = agent.costs.get(capability);
      return agent.readiness.ready && cost !== undefined && cost <= agent.slots;
    });
    usable.set(capability, found);
    return found;
  };

  const placements = new Map<string, Placement>();
  const left: WaitingJob[] = [];
  for (const job of queue) {
    const placement = place(job, usableFor(job.capability), free);
    if (placement) placements.set(job.uid, placement);
    else left.push(job);
  }
  return { placements, waiting: explain(left, agents, pools) };
}

function place(
  { capability }: WaitingJob,
  agents: readonly ScheduledAgent[],
  free: Map<string, number>,
): Placement | undefined {
  let best: ScheduledAgent | undefined;
  let nearest: ScheduledAgent | undefined;
  for (const agent of agents) {
    const slots = free.get(agent.name) ?? 0;
    if (!nearest || slots > (free.get(nearest.name) ?? 0)) nearest = agent;
    if (agent.paused || slots < (agent.costs.get(capability) ?? 0)) continue;
    if (!best || slots > (free.get(best.name) ?? 0)) best = agent;
  }
  if (best) {
    free.set(best.name, (free.get(best.name) ?? 0) - (best.costs.get(capability) ?? 0));
    return { agent: best.name, incarnation: best.incarnation };
  }
  if (nearest && (nearest.costs.get(capability) ?? 1) > 1) free.set(nearest.name, 0);
  return undefined;
}

function explain(
  left: readonly WaitingJob[],
  agents: readonly ScheduledAgent[],
  pools?: PoolWord,
): Map<string, WaitingReason> {
  const capabilities = [...new Set(left.map(({ capability }) => capability))];
  const rivals = new Map(
    capabilities.map((capability) => [
      capability,
      capabilities.filter(
        (other) =>
          other === capability || agents.some(({ costs }) => costs.has(capability) && costs.has(other)),
      ),
    ]),
  );
  const counts = countBy(left);
  const rivalsOf = (capability: string) => rivals.get(capability) ?? [];
  const common = new Map(
    capabilities.map((capability) => [
      capability,
      {
        obstacle: obstacleTo(capability, agents, pools),
        total: rivalsOf(capability).reduce((all, rival) => all + (counts.get(rival) ?? 0), 0),
        /** How many of its rivals, itself among them, have had their place. */
        ahead: 0,
      },
    ]),
  );

  const reasons = new Map<string, WaitingReason>();
  for (const { uid, capability } of left) {
    // Rivalry is mutual: whoever passes is ahead of all its rivals.
    for (const rival of rivalsOf(capability)) {
      const theirs = common.get(rival);
      if (theirs) theirs.ahead++;
    }
    const own = common.get(capability);
    if (own) reasons.set(uid, waitingReason(own.obstacle, own.ahead, own.total));
  }
  return reasons;
}

function countBy(jobs: readonly WaitingJob[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { capability } of jobs) counts.set(capability, (counts.get(capability) ?? 0) + 1);
  return counts;
}
