import { raceAbort } from '@semblance/common/async/abort';
import { createWorkQueue } from '@semblance/common/async/work-queue';
import { describeError } from '@semblance/common/errors';
import { type EventRecorder, isKubeError, type Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { ObjectStore } from '@semblance/objects/store';
import type { Registry } from 'prom-client';
import type { Fleet } from '../agents/fleet.ts';
import type { OperatorMetrics } from '../metrics.ts';
import type { Scheduler } from '../scheduling/scheduler.ts';
import { createAttempts } from './attempts.ts';
import type { FactStore } from './facts.ts';
import type { JobSnapshot } from './job-snapshot.ts';
import { outputKeys } from './outputs.ts';
import { reconcile } from './reconcile.ts';
import { attemptOf, isWaiting } from './status.ts';
import type { Texts } from './texts.ts';
import type { Action, AgentFate } from './types.ts';
import type { WaitingLane } from './waiting-lane.ts';
import type { JobWriter } from './writer.ts';

const isOver = (fate: AgentFate) => fate === 'lost' || fate === 'replaced';

const PROGRESS_EVERY_MS = 1_000;
/** Most decisions in one go for one job. More mean that deciding and doing disagree. */
const MAX_STEPS = 12;

export interface JobControllerOptions {
  readonly jobs: Reflector<RenderJob>;
  readonly writer: JobWriter;
  readonly fleet: Fleet;
  readonly facts: FactStore;
  readonly scheduler: Scheduler;
  readonly lane: WaitingLane;
  readonly objects: ObjectStore;
  readonly texts: Pick<Texts, 'parametersOf'>;
  readonly recorder: EventRecorder;
  readonly metrics: OperatorMetrics;
  readonly registry: Registry;
  readonly logger: Logger;
  readonly concurrency: number;
}

export interface JobController {
  /** Must be called when the job may have changed. */
  touch(uid: string): void;
  /** Must be called when its attempt has ended. The end is written before anything else begins. */
  ended(uid: string): void;
  /** Must be called when the job is gone. */
  forget(uid: string): void;
  run(signal: AbortSignal): Promise<void>;
  readonly depth: number;
}

/** Takes snapshots, asks `reconcile`, and performs its actions. */
export function createJobController(options: JobControllerOptions): JobController {
  const { jobs, writer, fleet, facts, scheduler, lane, objects, recorder, metrics, logger } = options;
  const attempts = createAttempts(options);
  const progressAt = new Map<string, number>();

  function snapshot(job: RenderJob): JobSnapshot {
    const { uid = '' } = job.metadata;
    const { agent, agentIncarnation = '' } = job.status ?? {};
    const bound = agent !== undefined;
    const fate = bound ? fleet.fateOf(agent, agentIncarnation) : 'unreachable';
    const placement = scheduler.placementOf(uid);
    // The agent may have gone since it was chosen.
    const placeable = placement && fleet.fateOf(placement.agent, placement.incarnation) === 'connected';
    return {
      job,
      now: Date.now(),
      facts: bound ? facts.get(uid, attemptOf(job), agent, agentIncarnation) : {},
      fate,
      ended: bound && isOver(fate) ? fleet.endOf(agent, agentIncarnation) : undefined,
      placement: placeable ? placement : undefined,
      waiting: isWaiting(job) ? lane.take(uid) : undefined,
      progressDue: performance.now() - (progressAt.get(uid) ?? Number.NEGATIVE_INFINITY) >= PROGRESS_EVERY_MS,
    };
  }

  /** @returns the job after the action, on whose version the next write is conditional */
  async function perform(action: Action, job: RenderJob, signal: AbortSignal): Promise<RenderJob> {
    const { uid = '' } = job.metadata;
    switch (action.type) {
      case 'status': {
        const held = action.hold ? await writer.hold(job, signal) : job;
        const written = await writer.writeStatus(held, action.status, signal);
        progressAt.set(uid, performance.now());
        // From here on the resource counts the slot of the bound job.
        if (action.hold) scheduler.settle(uid);
        metrics.statusWritten(job, written);
        if (action.event) recorder.event(written, action.event);
        return written;
      }
      case 'start':
        await attempts.start(job, signal);
        return job;
      case 'stop':
        await attempts.stop(job, action.reason, signal);
        return job;
      case 'acknowledge':
        await attempts.acknowledge(job, signal);
        return job;
      case 'sweep':
        await sweep(job, action.attempts, action.must, signal);
        return job;
      case 'forget':
        facts.forget(uid);
        return job;
      case 'release':
        await writer.release(job, signal);
        // Later reports of its agent are answered from the resource.
        facts.forget(uid);
        if (action.event) recorder.event(job, action.event);
        return job;
      case 'delete':
        await writer.delete(job, signal);
        return job;
    }
  }

  async function sweep(
    job: RenderJob,
    lost: readonly number[],
    must: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      const keys = lost.flatMap((attempt) => outputKeys(job, attempt));
      // A store that does not answer must not delay a handover; the next leader sweeps again.
      await raceAbort(signal, Promise.all(keys.map((key) => objects.delete(key))));
    } catch (error) {
      if (must) throw error;
      logger.warn(
        { job: job.metadata.name, reason: describeError(error) },
        'cannot delete all outputs of attempts that lost',
      );
    }
  }

  async function process(uid: string, signal: AbortSignal): Promise<{ requeueAfterMs: number } | undefined> {
    let job = jobs.byUid(uid);
    try {
      for (let step = 0; job; step++) {
        if (step >= MAX_STEPS) throw new Error(`no end after ${MAX_STEPS} decisions`);
        const decision = reconcile(snapshot(job));
        if (decision.actions.length === 0) {
          const { requeueAfterMs } = decision;
          return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
        }
        for (const action of decision.actions) {
          signal.throwIfAborted();
          job = await perform(action, job, signal);
          if (action.type === 'release' || action.type === 'delete') return undefined;
        }
        job = jobs.byUid(uid);
      }
      return undefined;
    } catch (error) {
      if (job && isKubeError(error, 'conflict', 'not_found')) {
        // The job is gone; the watch is about to say so.
        return { requeueAfterMs: (await writer.refresh(job, signal)) ? 5 : 500 };
      }
      throw error;
    } finally {
      scheduler.settle(uid);
      lane.done(uid);
    }
  }

  const queue = createWorkQueue({
    process,
    concurrency: options.concurrency,
    name: 'renderjobs',
    logger,
    registry: options.registry,
    maxDelayMs: 10_000,
  });

  return {
    touch: queue.add,
    ended: queue.addFirst,
    forget: (uid) => progressAt.delete(uid),
    run: queue.run,
    get depth() {
      return queue.depth;
    },
  };
}
