import type { WaitingReason } from '../renderjob/types.ts';
import type { FairShare } from './fair-share.ts';
import { createHeap } from './heap.ts';
import { costsOf } from './need.ts';
import { type Obstacle, obstacleTo, type PoolWord, waitingReason } from './reasons.ts';
import type { ScheduledAgent } from './scheduled-agent.ts';
import { type AccountQueue, byAge, neededBy, type WaitingJob, type WaitingQueue } from './waiting-queue.ts';

/** Reasons of jobs whose turn will come, so that the order matters. */
const BUSY: ReadonlySet<string> = new Set(['SlotsBusy', 'MemoryBusy', 'CardsBusy']);

export interface ExplainOptions {
  readonly queue: WaitingQueue;
  readonly agents: readonly ScheduledAgent[];
  readonly shares: FairShare;
  /** Unix milliseconds. */
  readonly now: number;
  /** Returns what pools do about waiting jobs. */
  readonly pools?: PoolWord | undefined;
}

/**
 * Returns why each job waits, and its place among those that compete for the same agents, the next first. The order
 * is that of placement one after the other, if each job takes as long as others of its capability did.
 *
 * Costs O(n log accounts).
 */
export function explain({ queue, agents, shares, now, pools }: ExplainOptions): Map<string, WaitingReason> {
  const reasons = new Map<string, WaitingReason>();
  if (queue.size === 0) return reasons;
  const needs = [...queue.counts.keys()].sort();
  const rivals = rivalsOf(needs, agents);
  const common = new Map(
    needs.map((need) => [
      need,
      {
        obstacle: obstacleTo(need, agents, pools),
        overtakenOf: new Map<string, Obstacle>(),
        total: (rivals.get(need) ?? []).reduce((all, rival) => all + (queue.counts.get(rival) ?? 0), 0),
        /** How many of its rivals, itself included, have had their place. */
        ahead: 0,
      },
    ]),
  );
  const lines = groupsOf(needs, rivals).map((group) => inOrder(group, queue, agents, shares, now));
  // The groups take turns, so that the first jobs of each are told early.
  const over = new Set<unknown>();
  for (let going = lines; going.length > 0; ) {
    for (const line of going) {
      const { value, done } = line.next();
      if (done) {
        over.add(line);
        continue;
      }
      const { job, overtaken } = value;
      // Rivalry is mutual: the job is ahead of all its rivals.
      for (const rival of rivals.get(neededBy(job)) ?? []) {
        const theirs = common.get(rival);
        if (theirs) theirs.ahead++;
      }
      const own = common.get(neededBy(job));
      if (own) {
        const obstacle = obstacleOf(job, overtaken, own.obstacle, own.overtakenOf, shares);
        reasons.set(job.uid, waitingReason(obstacle, own.ahead, own.total));
      }
    }
    if (going.some((line) => over.has(line))) going = going.filter((line) => !over.has(line));
  }
  return reasons;
}

/**
 * Returns the obstacle of this very job.
 * @param overtakenOf obstacles of overtaken jobs of its capability, by account; filled here
 */
function obstacleOf(
  job: WaitingJob,
  overtaken: boolean,
  common: Obstacle,
  overtakenOf: Map<string, Obstacle>,
  shares: FairShare,
): Obstacle {
  if (job.unknownClass !== undefined) {
    const message = `PriorityClasses cannot be read, so ${job.unknownClass} counts as priority 0; ${common.message}`;
    return { reason: 'PriorityClassUnknown', message };
  }
  if (!overtaken || !BUSY.has(common.reason)) return common;
  const account = job.account ?? '';
  const known = overtakenOf.get(account);
  if (known) return known;
  const running = shares.runningOf(account);
  const suffix = account ? 'of its account' : 'without an account';
  const message = `fair share: ${running} ${running === 1 ? 'job' : 'jobs'} ${suffix} ${running === 1 ? 'runs' : 'run'}, and younger ones of others come first; ${common.message}`;
  const obstacle = { reason: 'AccountShare', message };
  overtakenOf.set(account, obstacle);
  return obstacle;
}

/** Returns by need those that compete for the same agents, itself included. */
function rivalsOf(
  needs: readonly string[],
  agents: readonly ScheduledAgent[],
): ReadonlyMap<string, readonly string[]> {
  const pairs = new Map(needs.map((need) => [need, new Set([need])]));
  const costs = new Map(needs.map((need) => [need, costsOf(agents, need)]));
  for (const agent of agents) {
    const met = needs.filter((need) => costs.get(need)?.(agent) !== undefined);
    for (const one of met) for (const other of met) pairs.get(one)?.add(other);
  }
  return new Map([...pairs].map(([need, set]) => [need, [...set]]));
}

/** Groups needs that are rivals, directly or through others. */
function groupsOf(
  needs: readonly string[],
  rivals: ReadonlyMap<string, readonly string[]>,
): ReadonlySet<string>[] {
  const groups: Set<string>[] = [];
  for (const need of needs) {
    if (groups.some((group) => group.has(need))) continue;
    const group = new Set<string>();
    for (const open = [need]; open.length > 0; ) {
      const next = open.pop() as string;
      if (group.has(next)) continue;
      group.add(next);
      open.push(...(rivals.get(next) ?? []));
    }
    groups.push(group);
  }
  return groups;
}

interface Line {
  readonly jobs: readonly WaitingJob[];
  next: number;
}

interface Turn {
  readonly account: string;
  lines: Line[];
  /** The line whose next job is the oldest, and that job. */
  line: Line;
  head: WaitingJob;
  virtualTime: number;
  running: number;
}

/**
 * Yields the jobs of a group in the order of placement. `overtaken`: a younger one of the same priority goes first.
 */
function* inOrder(
  group: ReadonlySet<string>,
  queue: WaitingQueue,
  agents: readonly ScheduledAgent[],
  shares: FairShare,
  now: number,
): Generator<{ job: WaitingJob; overtaken: boolean }, undefined> {
  const slots = new Map([...group].map((need) => [need, slotsOf(need, agents)]));
  /** Accounts after their jobs of higher priority. */
  const spent = new Map<string, { virtualTime: number; running: number }>();
  for (const { accounts } of queue.levels()) {
    const turns: Turn[] = [];
    for (const [account, own] of accounts) {
      const lines = linesOf(own, group);
      if (lines.length === 0) continue;
      const { virtualTime, running } = spent.get(account) ?? {
        virtualTime: shares.virtualTime(account, now),
        running: shares.runningOf(account),
      };
      const line = oldest(lines);
      turns.push({ account, lines, line, head: headOf(line), virtualTime, running });
    }
    const heap = createHeap(inTurn, turns);
    let youngest: WaitingJob | undefined;
    for (let turn = heap.pop(); turn; turn = heap.pop()) {
      const { line, head: job } = turn;
      yield { job, overtaken: youngest !== undefined && byAge(job, youngest) < 0 };
      if (!youngest || byAge(youngest, job) < 0) youngest = job;
      turn.virtualTime += shares.costOf(turn.account, job.capability, slots.get(neededBy(job)) ?? 1);
      turn.running++;
      line.next++;
      if (line.next >= line.jobs.length) turn.lines = turn.lines.filter((each) => each !== line);
      if (turn.lines.length > 0) {
        turn.line = oldest(turn.lines);
        turn.head = headOf(turn.line);
        heap.push(turn);
      } else spent.set(turn.account, turn);
    }
  }
  return undefined;
}

function linesOf(own: AccountQueue, group: ReadonlySet<string>): Line[] {
  const lines: Line[] = [];
  for (const [need, jobs] of own) if (group.has(need)) lines.push({ jobs, next: 0 });
  return lines;
}

function oldest(lines: readonly Line[]): Line {
  let found = lines[0] as Line;
  for (const line of lines) if (line !== found && byAge(headOf(line), headOf(found)) < 0) found = line;
  return found;
}

function headOf({ jobs, next }: Line): WaitingJob {
  return jobs[next] as WaitingJob;
}

/** As in `place`. */
function inTurn(a: Turn, b: Turn): number {
  return a.virtualTime - b.virtualTime || a.running - b.running || byAge(a.head, b.head);
}

/** Returns the slots that a job takes: the least that any agent that can take it reports. */
function slotsOf(need: string, agents: readonly ScheduledAgent[]): number {
  let least: number | undefined;
  const costs = costsOf(agents, need);
  for (const agent of agents) {
    const cost = costs(agent);
    if (cost !== undefined && (least === undefined || cost < least)) least = cost;
  }
  return least ?? 1;
}
