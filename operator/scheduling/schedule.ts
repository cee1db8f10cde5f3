import type { Placement } from '../renderjob/types.ts';
import type { FairShare } from './fair-share.ts';
import { createFreeSlots, type FreeSlots, type Packing } from './free-slots.ts';
import { createHeap } from './heap.ts';
import { costsOf } from './need.ts';
import type { ScheduledAgent } from './scheduled-agent.ts';
import { type AccountQueue, byAge, neededBy, type WaitingJob, type WaitingQueue } from './waiting-queue.ts';

export type { ScheduledAgent } from './scheduled-agent.ts';
export type { WaitingJob } from './waiting-queue.ts';

export interface Placed extends Placement {
  readonly job: WaitingJob;
  readonly slots: number;
}

export interface PlaceOptions {
  /** Placed jobs are removed from it. */
  readonly queue: WaitingQueue;
  readonly agents: readonly ScheduledAgent[];
  /** Placed jobs count in it at once. */
  readonly shares: FairShare;
  /** Unix milliseconds. */
  readonly now: number;
  readonly packing?: Packing | undefined;
}

/**
 * Gives free slots to waiting jobs. The highest priority comes first, then the account with the least virtual time
 * (see FairShare), then its oldest job. A job that no agent can take now never holds up others, with one exception:
 * for a job that needs several slots, the agent nearest to having them is kept.
 *
 * Costs O(accounts + agents) once and O(log accounts + agents) for each job placed, however many jobs wait.
 */
export function place({ queue, agents, shares, now, packing }: PlaceOptions): Placed[] {
  const free = createFreeSlots(agents, packing);
  const open = new Set([...queue.counts.keys()].filter((need) => isWorthwhile(need, agents, free)));
  const placed: Placed[] = [];
  for (const { accounts } of [...queue.levels()]) {
    if (open.size === 0) break;
    const line = createHeap(inTurn, candidates(accounts, open, shares, now));
    for (let next = line.pop(); next && open.size > 0; next = line.pop()) {
      // What it needs may have been closed, or the queue have moved on, since the candidate was built.
      const job = oldestOf(next.queue, open);
      if (!job) continue;
      const need = neededBy(job);
      const agent = free.best(need, job.interruptedOn);
      if (agent) {
        const slots = agent.costs.get(job.capability) ?? 1;
        const { uid, capability } = job;
        shares.served(next.account, now);
        shares.started(uid, { account: next.account, capability, slots, since: now });
        free.take(agent, capability);
        queue.remove(uid);
        placed.push({ job, slots, agent: agent.name, incarnation: agent.incarnation });
      } else {
        free.reserve(need);
        open.delete(need);
      }
      const head = oldestOf(next.queue, open);
      if (head) line.push(candidate(next.account, next.queue, head, shares, now));
    }
  }
  return placed;
}

/** Returns whether a job that needs it can be placed, or must have slots kept. */
function isWorthwhile(need: string, agents: readonly ScheduledAgent[], free: FreeSlots): boolean {
  const cost = costsOf(agents, need);
  return free.best(need) !== undefined || agents.some((agent) => (cost(agent) ?? 0) > 1);
}

interface Candidate {
  readonly account: string;
  readonly queue: AccountQueue;
  readonly head: WaitingJob;
  readonly virtualTime: number;
  readonly running: number;
}

/** Least virtual time first, then fewest running jobs, then the oldest job. */
function inTurn(a: Candidate, b: Candidate): number {
  return a.virtualTime - b.virtualTime || a.running - b.running || byAge(a.head, b.head);
}

function candidate(
  account: string,
  queue: AccountQueue,
  head: WaitingJob,
  shares: FairShare,
  now: number,
): Candidate {
  const virtualTime = shares.virtualTime(account, now);
  return { account, queue, head, virtualTime, running: shares.runningOf(account) };
}

function candidates(
  accounts: ReadonlyMap<string, AccountQueue>,
  open: ReadonlySet<string>,
  shares: FairShare,
  now: number,
): Candidate[] {
  const found: Candidate[] = [];
  for (const [account, queue] of accounts) {
    const head = oldestOf(queue, open);
    if (head) found.push(candidate(account, queue, head, shares, now));
  }
  return found;
}

function oldestOf(queue: AccountQueue, open: ReadonlySet<string>): WaitingJob | undefined {
  let oldest: WaitingJob | undefined;
  for (const [need, [head]] of queue) {
    if (head && open.has(need) && (!oldest || byAge(head, oldest) < 0)) oldest = head;
  }
  return oldest;
}
