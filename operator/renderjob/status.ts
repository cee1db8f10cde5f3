import { clip } from '@semblance/common/plain-text';
import type { RenderJob, RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import { type Condition, withCondition, withoutCondition } from '../conditions.ts';
import { type Action, FINALIZER, type Phase } from './types.ts';

/** Status fields that show the place of a waiting job. */
export const PLACE = ['queuePosition', 'queueLength'] as const satisfies (keyof RenderJobStatus)[];

/** Phases of a job that is bound to an agent. */
const BOUND: readonly Phase[] = ['Assigned', 'Running', 'Stopping'];

export function phaseOf(job: RenderJob): Phase {
  return job.status?.phase ?? 'Pending';
}

/** Returns whether it is bound to an agent that may be working on it. */
export function isActive(job: RenderJob): boolean {
  return BOUND.includes(phaseOf(job));
}

export function isFinished(job: RenderJob): boolean {
  const phase = phaseOf(job);
  return phase === 'Succeeded' || phase === 'Failed';
}

/**
 * Returns whether it competes for a slot, now or after its `retryTime`: it is neither bound nor finished nor held
 * back.
 */
export function isWaiting(job: RenderJob): boolean {
  const phase = phaseOf(job);
  return (
    !job.metadata.deletionTimestamp && !job.spec.suspend && (phase === 'Pending' || phase === 'Suspended')
  );
}

export function isHeld(job: RenderJob): boolean {
  return job.metadata.finalizers?.includes(FINALIZER) ?? false;
}

export function attemptOf(job: RenderJob): number {
  return job.status?.attempt ?? 0;
}

/** Returns when the job began to wait, in Unix milliseconds. */
export function queuedAt(job: RenderJob): number {
  return Date.parse(job.status?.queueTime ?? job.metadata.creationTimestamp ?? '') || 0;
}

export function retryAt(job: RenderJob): number {
  return Date.parse(job.status?.retryTime ?? '') || 0;
}

/**
 * Returns the agent of the last attempt if interruptions have ended any of the job. What interrupted it, such as a
 * full device, may still be so there.
 */
export function interruptedOn(job: RenderJob): string | undefined {
  return (job.status?.interruptions ?? 0) > 0 ? job.status?.agent : undefined;
}

export interface StatusChange {
  readonly phase: Phase;
  /** Reason and message of the condition `Ready`. */
  readonly reason: string;
  readonly message: string;
  readonly set?: Partial<RenderJobStatus>;
  readonly clear?: readonly (keyof RenderJobStatus)[];
}

/** Returns the whole status after the change. Fields not named stay, and the conditions match the phase. */
export function statusWith(job: RenderJob, now: number, change: StatusChange): RenderJobStatus {
  const { phase, reason, message } = change;
  const observedGeneration = job.metadata.generation;
  const status: RenderJobStatus = {
    ...job.status,
    ...attemptsAfter(job, now, change),
    ...change.set,
    phase,
    observedGeneration,
  };
  for (const field of change.clear ?? []) delete status[field];
  let conditions: Condition[] = withCondition(
    job.status?.conditions,
    {
      type: 'Ready',
      status: phase === 'Succeeded' ? 'True' : 'False',
      reason,
      message,
      observedGeneration,
    },
    now,
  );
  for (const [type, holds] of [
    ['Complete', phase === 'Succeeded'],
    ['Failed', phase === 'Failed'],
    ['Finished', phase === 'Succeeded' || phase === 'Failed'],
  ] as const) {
    conditions = holds
      ? withCondition(conditions, { type, status: 'True', reason, message, observedGeneration }, now)
      : withoutCondition(conditions, type);
  }
  return { ...status, conditions };
}

/** Most ended attempts that the status lists, and the longest message of one. */
const MAX_ATTEMPTS = 16;
const MAX_MESSAGE = 512;

/** Returns the list of ended attempts, if the change ends the present one. */
function attemptsAfter(
  job: RenderJob,
  now: number,
  { phase, reason, message, set }: StatusChange,
): Pick<RenderJobStatus, 'attempts'> {
  if (!isActive(job) || BOUND.includes(phase)) return {};
  const startTime = set?.startTime ?? job.status?.startTime;
  const ended = {
    number: Math.max(1, attemptOf(job)),
    agent: job.status?.agent ?? '',
    ...(startTime === undefined ? {} : { startTime }),
    endTime: new Date(now).toISOString(),
    reason,
    message: clip(message, MAX_MESSAGE),
  };
  return { attempts: [...(job.status?.attempts ?? []), ended].slice(-MAX_ATTEMPTS) };
}

/**
 * Returns the action that ends a job for good. `message` is for operating staff and may name agents and settings;
 * `failure` is what the job's owner reads, so a failed job always has one of its own.
 */
export function finish(
  job: RenderJob,
  now: number,
  change: StatusChange &
    (
      | { readonly phase: 'Succeeded' }
      | { readonly phase: 'Failed'; readonly failure: NonNullable<RenderJobStatus['failure']> }
    ),
): Action {
  const { reason, message } = change;
  const failed = change.phase === 'Failed';
  const status = statusWith(job, now, {
    ...change,
    set: {
      ...change.set,
      completionTime: new Date(now).toISOString(),
      ...(failed ? { failure: change.failure } : { progress: '100%' }),
    },
    clear: [...PLACE, 'retryTime', 'stage', 'etaSeconds', ...(change.clear ?? [])],
  });
  return {
    type: 'status',
    status,
    event: {
      type: failed ? 'Warning' : 'Normal',
      reason,
      action: failed ? 'Fail' : 'Complete',
      note: message,
    },
  };
}
