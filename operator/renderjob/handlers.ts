import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { AgentController } from '../agents/controller.ts';
import type { OperatorMetrics } from '../metrics.ts';
import type { Scheduler } from '../scheduling/scheduler.ts';
import type { JobController } from './controller.ts';
import type { FactStore } from './facts.ts';
import type { Orphans } from './orphans.ts';
import { attemptOf, isWaiting, retryAt } from './status.ts';

export interface JobHandlersOptions {
  readonly facts: FactStore;
  readonly orphans: Orphans;
  readonly scheduler: Scheduler;
  readonly controller: JobController;
  readonly agentController: AgentController;
  readonly metrics: OperatorMetrics;
}

/** Handlers of changes of RenderJobs. They tell every part of a term that depends on the job. */
export interface JobHandlers {
  onAdd(job: RenderJob): void;
  onUpdate(job: RenderJob, old: RenderJob): void;
  onDelete(job: RenderJob): void;
}

export function createJobHandlers(options: JobHandlersOptions): JobHandlers {
  const { facts, orphans, scheduler, controller, agentController, metrics } = options;

  function seen(job: RenderJob, old?: RenderJob): void {
    const { uid = '' } = job.metadata;
    controller.touch(uid);
    if (isWaiting(job)) metrics.queued(uid);
    scheduler.observe(job);
    for (const agent of new Set([job.status?.agent, old?.status?.agent])) {
      if (!agent) continue;
      scheduler.agentChanged(agent);
      if (!old || matters(job, old)) agentController.touch(agent);
    }
    if (old && !matters(job, old)) return;
    scheduler.touch();
    if (attemptOf(job) !== attemptOf(old ?? job)) facts.forget(uid, attemptOf(job));
  }

  return {
    onAdd: (job) => seen(job),
    onUpdate: seen,
    onDelete({ metadata: { uid = '' }, status }) {
      for (const { attempt, agent, incarnation } of facts.of(uid)) {
        orphans.consider(agent, incarnation, uid, attempt);
        scheduler.agentChanged(agent);
      }
      if (status?.agent) scheduler.agentChanged(status.agent);
      scheduler.forget(uid);
      controller.touch(uid);
      controller.forget(uid);
      metrics.forget(uid);
      scheduler.touch();
    },
  };
}

/** Returns whether the change affects who gets which slot. */
function matters(job: RenderJob, old: RenderJob): boolean {
  return (
    job.metadata.generation !== old.metadata.generation ||
    job.status?.phase !== old.status?.phase ||
    job.status?.agent !== old.status?.agent ||
    attemptOf(job) !== attemptOf(old) ||
    retryAt(job) !== retryAt(old)
  );
}
