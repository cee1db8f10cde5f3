import type { Reflector } from '#common/kube/index.ts';
import type { RenderJob } from '#crds/gen/renderjobs.ts';
import type { Fleet } from '../agents/fleet.ts';
import type { AgentView } from '../agents/view.ts';
import type { FactStore } from '../renderjob/facts.ts';
import { attemptOf, retryAt } from '../renderjob/status.ts';
import type { Placement, WaitingReason } from '../renderjob/types.ts';
import type { PoolWord } from './reasons.ts';
import { inQueueOrder, schedule, type WaitingJob } from './schedule.ts';

/** A pass longer than this is not repeated at once for each job that joins the queue. */
const SHORT_PASS_MS = 2;
/** How many times as long as it took such a pass is rested from, and how long at most. */
const REST = 30;
const MAX_REST_MS = 500;

export interface SchedulerOptions {
  readonly jobs: Reflector<RenderJob>;
  readonly fleet: Fleet;
  readonly facts: FactStore;
  /** The job has been given an agent: bind it. */
  readonly onPlaced: (uid: string) => void;
  /** What pools do about it that jobs wait. */
  readonly pools?: PoolWord;
  /** Why each job still waits, after every pass. */
  readonly onWaiting: (waiting: ReadonlyMap<string, WaitingReason>) => void;
}

/** Runs `schedule` whenever something it depends on has changed, on what the local copies say. */
export interface Scheduler {
  run(signal: AbortSignal): Promise<void>;
  /** Something changed: schedule as soon as the present events have been taken in. */
  touch(): void;
  /** A job joined the queue; one of thousands is not looked through anew for each. */
  joined(): void;
  placementOf(uid: string): Placement | undefined;
  /** The placement was carried out or came to nothing. */
  settle(uid: string): void;
  /** Slots taken on an agent, placements under way included. */
  usedOn(agent: AgentView): number;
}

export function createScheduler(options: SchedulerOptions): Scheduler {
  const { jobs, fleet, facts } = options;
  /** Placements that the resources do not show yet. */
  const assumed = new Map<string, Placement & { readonly capability: string }>();
  let running: AbortSignal | undefined;
  let scheduled = false;
  let wake: NodeJS.Timeout | undefined;
  let later: NodeJS.Timeout | undefined;
  let restUntil = 0;

  function touch(): void {
    if (scheduled || !running || running.aborted) return;
    scheduled = true;
    setImmediate(pass);
  }

  function joined(): void {
    if (scheduled || later) return;
    const rest = restUntil - performance.now();
    if (rest <= 0) touch();
    else later = setTimeout(touch, rest);
  }

  function pass(): void {
    scheduled = false;
    clearTimeout(later);
    later = undefined;
    if (!running || running.aborted) return;
    const began = performance.now();
    const now = Date.now();
    const queue: WaitingJob[] = [];
    let next = Number.POSITIVE_INFINITY;
    for (const job of jobs.byIndex('state', 'waiting')) {
      const { uid = '', name = '', creationTimestamp = '' } = job.metadata;
      if (assumed.has(uid)) continue;
      const retry = retryAt(job);
      if (retry > now) next = Math.min(next, retry);
      else {
        const { capability, priority = 0 } = job.spec;
        queue.push({ uid, name, capability, priority, createdAt: creationTimestamp });
      }
    }
    queue.sort(inQueueOrder);
    const agents = fleet.views().map((view) => ({
      ...view,
      used: usedOn(view),
      paused: fleet.isPaused(view.name),
    }));
    const { placements, waiting } = schedule(queue, agents, options.pools);
    const capabilities = new Map(queue.map(({ uid, capability }) => [uid, capability]));
    for (const [uid, placement] of placements) {
      assumed.set(uid, { ...placement, capability: capabilities.get(uid) ?? '' });
      options.onPlaced(uid);
    }
    options.onWaiting(waiting);
    clearTimeout(wake);
    if (Number.isFinite(next)) wake = setTimeout(touch, Math.min(next - now, 60_000));
    const took = performance.now() - began;
    restUntil = took > SHORT_PASS_MS ? performance.now() + Math.min(took * REST, MAX_REST_MS) : 0;
  }

  function usedOn({ name, incarnation, costs }: AgentView): number {
    let used = 0;
    const bound = new Set<string>();
    for (const job of jobs.byIndex('agent', name)) {
      const { uid = '' } = job.metadata;
      const attempt = attemptOf(job);
      bound.add(`${uid}/${attempt}`);
      if (job.status?.agentIncarnation !== incarnation) continue;
      const { report, stopped } = facts.get(uid, attempt, name, incarnation);
      // What has ended has freed its slots, whether or not the resource says so yet.
      if (stopped || (report && report.state >= 2)) continue;
      used += costs.get(job.spec.capability) ?? 1;
    }
    for (const { agent, incarnation: of, capability } of assumed.values()) {
      if (agent === name && of === incarnation) used += costs.get(capability) ?? 1;
    }
    // Work that no resource asks for any more takes its slots until it is stopped.
    for (const { uid, attempt } of facts.runningOn(name, incarnation)) {
      if (!bound.has(`${uid}/${attempt}`)) used++;
    }
    return used;
  }

  return {
    async run(signal) {
      running = signal;
      touch();
      await new Promise<void>((resolve) => {
        if (signal.aborted) resolve();
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      clearTimeout(wake);
      clearTimeout(later);
      assumed.clear();
    },
    touch,
    joined,
    placementOf: (uid) => assumed.get(uid),
    settle(uid) {
      if (assumed.delete(uid)) touch();
    },
    usedOn,
  };
}
