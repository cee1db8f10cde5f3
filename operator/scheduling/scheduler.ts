import type { Reflector } from '@semblance/common/kube/index';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Fleet } from '../agents/fleet.ts';
import type { AgentView } from '../agents/view.ts';
import { isTerminal } from '../renderjob/attempt-state.ts';
import type { FactStore } from '../renderjob/facts.ts';
import { attemptOf, isActive, isFinished, isWaiting, retryAt } from '../renderjob/status.ts';
import type { Placement, WaitingReason } from '../renderjob/types.ts';
import { explain } from './explain.ts';
import { createFairShare } from './fair-share.ts';
import type { Packing, ScheduledAgent } from './free-slots.ts';
import type { PriorityOf } from './priority-classes.ts';
import type { PoolWord } from './reasons.ts';
import { type Placed, place } from './schedule.ts';
import { createWaitingQueue } from './waiting-queue.ts';

/** Factors from the time that placing, or computing reasons, took to the rest after it. */
const REST_OF_PASS = 4;
const REST_OF_REASONS = 30;
const MAX_REST_MS = 2_000;
/** Work that takes no longer than this needs no rest, in ms. */
const SHORT_MS = 2;
/** Interval at which all agents are read anew, whatever was reported, in ms. */
const LOOK_MS = 1_000;
/** Age up to which ended jobs count as past use of their accounts, in ms. */
const PAST_MS = 600_000;
const MAX_TIMER_MS = 60_000;

export interface SchedulerOptions {
  readonly jobs: Reflector<RenderJob>;
  readonly fleet: Fleet;
  readonly facts: FactStore;
  readonly priorityOf: PriorityOf;
  /** Weights of accounts; 1 for accounts not named. */
  readonly weights?: ReadonlyMap<string, number> | undefined;
  readonly packing?: Packing | undefined;
  /** Called when the job has been given an agent and must be bound. */
  readonly onPlaced: (uid: string) => void;
  /** Returns what pools do about waiting jobs. */
  readonly pools?: PoolWord;
  /** Called now and then with the reason of each job that still waits. */
  readonly onWaiting: (waiting: ReadonlyMap<string, WaitingReason>) => void;
}

/** Keeps what `place` and `explain` need, and runs them when something has changed. */
export interface Scheduler {
  run(signal: AbortSignal): Promise<void>;
  /** Takes a job into account; must be called on every change of it. */
  observe(job: RenderJob): void;
  /** Must be called when the job is gone. */
  forget(uid: string): void;
  /** Must be called when the slots or the work of the agent may have changed. */
  agentChanged(agent: string): void;
  /** Schedules once the present events have been processed. */
  touch(): void;
  /** Must be called when PriorityClasses have changed. */
  reprioritise(): void;
  placementOf(uid: string): Placement | undefined;
  /** Ends a placement that was carried out or failed. */
  settle(uid: string): void;
  /** Returns the slots taken on an agent, placements under way included. */
  usedOn(agent: AgentView): number;
}

export function createScheduler(options: SchedulerOptions): Scheduler {
  const { jobs, fleet, facts, priorityOf, packing } = options;
  const shares = createFairShare(options.weights);
  const queue = createWaitingQueue();
  /** Jobs that wait for their retry, with its Unix milliseconds. */
  const delayed = new Map<string, number>();
  /** Placements that the resources do not show yet. */
  const assumed = new Map<string, Placed>();
  const assumedOn = new Map<string, Set<string>>();
  const agents = new Map<string, ScheduledAgent>();
  const changed = new Set<string>();
  let running: AbortSignal | undefined;
  let scheduled = false;
  let timer: NodeJS.Timeout | undefined;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let passAfter = 0;
  let explainAfter = 0;
  let anyTold = false;
  /** Something has changed since the reasons were computed. */
  let unexplained = false;

  function touch(): void {
    if (scheduled || !running || running.aborted) return;
    scheduled = true;
    const rest = passAfter - performance.now();
    if (rest <= 0) setImmediate(pass);
    else setTimeout(pass, rest);
  }

  function observe(job: RenderJob): void {
    if (!running) return;
    const { uid = '', name = '', creationTimestamp: createdAt = '' } = job.metadata;
    const { capability, account = '' } = job.spec;
    const now = Date.now();
    // The job's use must count before its account begins to wait again.
    if (isActive(job)) shares.started(uid, { account, capability, ...heldBy(job, now) });
    else if (!assumed.has(uid)) shares.ended(uid, endOf(job) ?? now, isFinished(job));
    const retry = retryAt(job);
    if (!isWaiting(job) || assumed.has(uid) || retry > now) {
      queue.remove(uid);
      if (isWaiting(job) && retry > now) delayed.set(uid, retry);
      else delayed.delete(uid);
      return;
    }
    delayed.delete(uid);
    if (!queue.has(account)) shares.joined(account, now);
    queue.put({ uid, name, capability, account, createdAt, ...priorityOf(job) });
  }

  function heldBy(job: RenderJob, now: number): { slots: number; since: number } {
    const { agent = '', startTime } = job.status ?? {};
    const placed = assumed.get(job.metadata.uid ?? '');
    const slots = placed?.slots ?? agents.get(agent)?.costs.get(job.spec.capability) ?? 1;
    const began = Date.parse(startTime ?? '');
    return { slots, since: Number.isNaN(began) ? now : Math.min(began, now) };
  }

  function agentChanged(name: string): void {
    changed.add(name);
  }

  /** Updates the agents and returns them. */
  function lookAtAgents(): readonly ScheduledAgent[] {
    const all = performance.now() - lookedAt > LOOK_MS;
    if (all) {
      lookedAt = performance.now();
      const views = fleet.views();
      const names = new Set(views.map(({ name }) => name));
      for (const name of agents.keys()) if (!names.has(name)) agents.delete(name);
      for (const view of views) agents.set(view.name, countedOn(view));
    } else {
      for (const name of changed) {
        const view = fleet.view(name);
        if (view) agents.set(name, countedOn(view));
        else agents.delete(name);
      }
    }
    changed.clear();
    return [...agents.values()];
  }

  function countedOn(view: AgentView): ScheduledAgent {
    const { slots: used, memoryMib: memoryUsed } = takenOn(view);
    return {
      ...view,
      used,
      memoryUsed,
      get paused() {
        return fleet.isPaused(view.name);
      },
    };
  }

  function pass(): void {
    scheduled = false;
    clearTimeout(timer);
    if (!running || running.aborted) return;
    const began = performance.now();
    const now = Date.now();
    for (const [uid, retry] of delayed) {
      const job = retry <= now && jobs.byUid(uid);
      if (job) observe(job);
      else if (retry <= now) delayed.delete(uid);
    }
    if (queue.size > 0 || anyTold) {
      const known = lookAtAgents();
      for (const placed of place({ queue, agents: known, shares, now, packing })) assume(placed);
      const placedBy = performance.now();
      passAfter = afterRest(placedBy - began, REST_OF_PASS);
      unexplained = placedBy < explainAfter;
      if (!unexplained) {
        anyTold = queue.size > 0;
        options.onWaiting(explain({ queue, agents: known, shares, now, pools: options.pools }));
        explainAfter = afterRest(performance.now() - placedBy, REST_OF_REASONS);
      }
    } else unexplained = false;
    sleep(now);
  }

  /** Sets the timer for the next retry or computation of reasons. */
  function sleep(now: number): void {
    let wait = Number.POSITIVE_INFINITY;
    for (const retry of delayed.values()) wait = Math.min(wait, retry - now);
    if (unexplained) wait = Math.min(wait, explainAfter - performance.now());
    if (Number.isFinite(wait)) timer = setTimeout(touch, Math.min(Math.max(0, wait), MAX_TIMER_MS));
  }

  function assume(placed: Placed): void {
    const { uid } = placed.job;
    assumed.set(uid, placed);
    const here = assumedOn.get(placed.agent) ?? new Set();
    assumedOn.set(placed.agent, here.add(uid));
    agentChanged(placed.agent);
    options.onPlaced(uid);
  }

  function takenOn(view: AgentView): { slots: number; memoryMib: number } {
    const { name, incarnation, costs, memory } = view;
    let slots = 0;
    let memoryMib = 0;
    const bound = new Set<string>();
    const take = (capability: string) => {
      slots += costs.get(capability) ?? 1;
      memoryMib += memory?.get(capability) ?? 0;
    };
    for (const job of jobs.byIndex('agent', name)) {
      const { uid = '' } = job.metadata;
      const attempt = attemptOf(job);
      bound.add(`${uid}/${attempt}`);
      if (job.status?.agentIncarnation !== incarnation) continue;
      const { report, stopped } = facts.get(uid, attempt, name, incarnation);
      // An ended attempt has freed its slots, even if the resource does not say so yet.
      if (stopped || (report && isTerminal(report.state))) continue;
      take(job.spec.capability);
    }
    for (const uid of assumedOn.get(name) ?? []) {
      const placed = assumed.get(uid);
      if (placed?.incarnation === incarnation) take(placed.job.capability);
    }
    // Work that no resource asks for holds its slots until it is stopped.
    for (const { uid, attempt } of facts.runningOn(name, incarnation)) {
      if (!bound.has(`${uid}/${attempt}`)) slots++;
    }
    return { slots, memoryMib };
  }

  function drop(uid: string): boolean {
    const placed = assumed.get(uid);
    if (!placed) return false;
    assumed.delete(uid);
    const here = assumedOn.get(placed.agent);
    here?.delete(uid);
    if (here?.size === 0) assumedOn.delete(placed.agent);
    agentChanged(placed.agent);
    return true;
  }

  return {
    async run(signal) {
      running = signal;
      lookAtAgents();
      const now = Date.now();
      for (const job of jobs.list()) {
        observe(job);
        const end = endOf(job);
        if (end === undefined || now - end > PAST_MS) continue;
        const { capability, account = '' } = job.spec;
        shares.past({ account, capability, ...heldBy(job, end) }, end);
      }
      touch();
      await new Promise<void>((resolve) => {
        if (signal.aborted) resolve();
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      clearTimeout(timer);
      assumed.clear();
    },
    observe,
    forget(uid) {
      queue.remove(uid);
      delayed.delete(uid);
      shares.ended(uid, Date.now(), false);
    },
    agentChanged,
    touch,
    reprioritise() {
      for (const job of jobs.byIndex('state', 'waiting')) observe(job);
      touch();
    },
    placementOf: (uid) => assumed.get(uid),
    settle(uid) {
      if (!drop(uid)) return;
      // The job is bound, or must be placed again.
      const job = jobs.byUid(uid);
      if (job) observe(job);
      else shares.ended(uid, Date.now(), false);
      touch();
    },
    usedOn: (view) => takenOn(view).slots,
  };
}

/** Returns the performance.now() at which the work may be done again. */
function afterRest(tookMs: number, times: number): number {
  return tookMs > SHORT_MS ? performance.now() + Math.min(tookMs * times, MAX_REST_MS) : 0;
}

function endOf(job: RenderJob): number | undefined {
  if (!isFinished(job)) return undefined;
  const end = Date.parse(job.status?.completionTime ?? '');
  return Number.isNaN(end) ? undefined : end;
}
