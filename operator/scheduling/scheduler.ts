import { afterAbort } from '@semblance/common/async/abort';
import type { Reflector } from '@semblance/common/kube/index';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Fleet } from '../agents/fleet.ts';
import type { AgentView } from '../agents/view.ts';
import type { FactStore } from '../renderjob/facts.ts';
import { interruptedOn, isActive, isFinished, isWaiting, retryAt } from '../renderjob/status.ts';
import type { Placement, WaitingReason } from '../renderjob/types.ts';
import { createAgentSlots } from './agent-slots.ts';
import { createAssumedPlacements } from './assumed.ts';
import { explain } from './explain.ts';
import { createFairShare } from './fair-share.ts';
import type { Packing } from './free-slots.ts';
import { needOf } from './need.ts';
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
  /** PriorityClasses that do not exist, by the jobs that name them and are held back for it. */
  const held = new Map<string, string>();
  const assumed = createAssumedPlacements();
  const slots = createAgentSlots({ jobs, fleet, facts, assumed });
  let running: AbortSignal | undefined;
  let scheduled = false;
  let timer: NodeJS.Timeout | undefined;
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
      held.delete(uid);
      if (isWaiting(job) && retry > now) delayed.set(uid, retry);
      else delayed.delete(uid);
      return;
    }
    delayed.delete(uid);
    const { missingClass, ...priority } = priorityOf(job);
    if (missingClass !== undefined) {
      queue.remove(uid);
      held.set(uid, missingClass);
      return;
    }
    held.delete(uid);
    if (!queue.has(account)) shares.joined(account, now);
    queue.put({
      uid,
      name,
      capability,
      need: needOf(job.spec),
      account,
      createdAt,
      interruptedOn: interruptedOn(job),
      ...priority,
    });
  }

  function heldBy(job: RenderJob, now: number): { slots: number; since: number } {
    const { agent = '', startTime } = job.status ?? {};
    const placed = assumed.get(job.metadata.uid ?? '');
    const taken = placed?.slots ?? slots.costOn(agent, job.spec.capability);
    const began = Date.parse(startTime ?? '');
    return { slots: taken, since: Number.isNaN(began) ? now : Math.min(began, now) };
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
    if (queue.size + held.size > 0 || anyTold) {
      const known = slots.look();
      for (const placed of place({ queue, agents: known, shares, now, packing })) assume(placed);
      const placedBy = performance.now();
      passAfter = afterRest(placedBy - began, REST_OF_PASS);
      unexplained = placedBy < explainAfter;
      if (!unexplained) {
        anyTold = queue.size + held.size > 0;
        const reasons = explain({ queue, agents: known, shares, now, pools: options.pools });
        options.onWaiting(new Map([...reasons, ...heldBack(held)]));
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
    assumed.add(placed);
    slots.changed(placed.agent);
    options.onPlaced(placed.job.uid);
  }

  return {
    async run(signal) {
      running = signal;
      slots.look();
      const now = Date.now();
      for (const job of jobs.list()) {
        observe(job);
        const end = endOf(job);
        if (end === undefined || now - end > PAST_MS) continue;
        const { capability, account = '' } = job.spec;
        shares.past({ account, capability, ...heldBy(job, end) }, end);
      }
      touch();
      await afterAbort(signal);
      clearTimeout(timer);
      assumed.clear();
    },
    observe,
    forget(uid) {
      queue.remove(uid);
      delayed.delete(uid);
      held.delete(uid);
      shares.ended(uid, Date.now(), false);
    },
    agentChanged: slots.changed,
    touch,
    reprioritise() {
      for (const job of jobs.byIndex('state', 'waiting')) observe(job);
      touch();
    },
    placementOf: (uid) => assumed.get(uid),
    settle(uid) {
      const placed = assumed.remove(uid);
      if (!placed) return;
      slots.changed(placed.agent);
      // The job is bound, or must be placed again.
      const job = jobs.byUid(uid);
      if (job) observe(job);
      else shares.ended(uid, Date.now(), false);
      touch();
    },
    usedOn: (view) => slots.takenOn(view).slots,
  };
}

function heldBack(held: ReadonlyMap<string, string>): [string, WaitingReason][] {
  return [...held].map(([uid, name]) => {
    const message = `There is no PriorityClass ${name}, so the job is held back. Create the class, or the job again with another.`;
    return [uid, { reason: 'PriorityClassUnknown', message, position: undefined }];
  });
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
