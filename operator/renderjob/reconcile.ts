import { hasFinalizer, leavesNothingBehind, SETTLEMENT_FINALIZER } from '@semblance/common/finalizers';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import { isTerminal } from './attempt-state.ts';
import type { JobSnapshot } from './job-snapshot.ts';
import { decideActive } from './reconcile-active.ts';
import {
  attemptOf,
  finish,
  isActive,
  isFinished,
  isHeld,
  PLACE,
  phaseOf,
  queuedAt,
  retryAt,
  statusWith,
} from './status.ts';
import type { Action, AttemptFacts, Decision, Placement, WaitingReason } from './types.ts';

/** How long a deletion waits for a living agent to confirm the stop, in ms. */
const DELETION_PATIENCE_MS = 60_000;

const NOTHING: Decision = { actions: [] };

/**
 * Decides what to do next for one RenderJob. Pure: the same snapshot gives the same decision. The caller performs
 * the actions in order, and asks again with a fresh snapshot until there are none. What was not carried out (a
 * crash, a conflict) is decided again.
 */
export function reconcile(snapshot: JobSnapshot): Decision {
  const { job } = snapshot;
  if (job.metadata.deletionTimestamp) return decideDeleted(snapshot);
  if (isFinished(job)) return decideFinished(snapshot);
  if (isActive(job)) return decideActive(snapshot);
  return job.spec.suspend ? decideSuspended(snapshot) : decideWaiting(snapshot);
}

function decideDeleted(snapshot: JobSnapshot): Decision {
  const { job, now, facts, fate } = snapshot;
  if (!isHeld(job)) return NOTHING;
  if (isFinished(job)) return decideFinished(snapshot);
  if (isLeftToControlPlane(job)) return NOTHING;
  const attempts = upTo(attemptOf(job));
  const cleared: Action[] = [
    ...(facts.report ? [{ type: 'acknowledge' } as const] : []),
    { type: 'sweep', attempts, must: false },
  ];
  if (!isActive(job) || hasEnded(snapshot)) return { actions: [...cleared, { type: 'release' }] };

  const waited = now - Date.parse(job.metadata.deletionTimestamp ?? '');
  if (waited > DELETION_PATIENCE_MS) {
    const note = `${job.status?.agent} did not confirm within ${DELETION_PATIENCE_MS / 1000} s that it stopped attempt ${attemptOf(job)}; the job is removed regardless`;
    const event = { type: 'Warning', reason: 'StopUnconfirmed', action: 'Delete', note } as const;
    return { actions: [...cleared, { type: 'release', event }] };
  }
  const requeueAfterMs = DELETION_PATIENCE_MS - waited + 10;
  if (phaseOf(job) !== 'Stopping') {
    const message = `Deleted: ${job.status?.agent} is stopping attempt ${attemptOf(job)}`;
    return {
      actions: [
        { type: 'status', status: statusWith(job, now, { phase: 'Stopping', reason: 'Deleted', message }) },
      ],
    };
  }
  return {
    actions: fate === 'connected' ? [{ type: 'stop', reason: 'the job was deleted' }] : [],
    requeueAfterMs,
  };
}

/** Returns whether the present attempt is proven to be over for good. */
function hasEnded({ facts, fate }: Pick<JobSnapshot, 'facts' | 'fate'>): boolean {
  return fate === 'replaced' || fate === 'lost' || facts.stopped === true || reportsEnd(facts);
}

function reportsEnd({ report }: AttemptFacts): boolean {
  return report !== undefined && isTerminal(report.state);
}

/** Returns whether the control plane, which holds the job too, removes both finalizers. */
function isLeftToControlPlane(job: RenderJob): boolean {
  return hasFinalizer(job, SETTLEMENT_FINALIZER) && leavesNothingBehind(job);
}

function decideFinished({ job, now, facts }: JobSnapshot): Decision {
  const acknowledge: Action[] = facts.report && !facts.acknowledged ? [{ type: 'acknowledge' }] : [];
  if (isHeld(job) && isLeftToControlPlane(job)) {
    return { actions: facts.report ? [...acknowledge, { type: 'forget' }] : [] };
  }
  if (isHeld(job)) {
    const losers = upTo(attemptOf(job)).filter(
      (attempt) => job.status?.phase === 'Failed' || attempt !== attemptOf(job),
    );
    return {
      actions: [
        ...acknowledge,
        ...(losers.length > 0
          ? [{ type: 'sweep', attempts: losers, must: !job.metadata.deletionTimestamp } as const]
          : []),
        { type: 'release' },
      ],
    };
  }
  const { ttlSecondsAfterFinished: ttl } = job.spec;
  if (ttl === undefined || job.metadata.deletionTimestamp) return NOTHING;
  const left = Date.parse(job.status?.completionTime ?? '') + ttl * 1000 - now;
  return left > 0 ? { actions: [], requeueAfterMs: left } : { actions: [{ type: 'delete' }] };
}

function decideSuspended({ job, now }: JobSnapshot): Decision {
  if (phaseOf(job) === 'Suspended') return NOTHING;
  const status = statusWith(job, now, {
    phase: 'Suspended',
    reason: 'Suspended',
    message: 'Held back by spec.suspend; set it to false to queue the job again.',
    clear: [...PLACE, 'retryTime'],
  });
  return { actions: [{ type: 'status', status }] };
}

function decideWaiting(snapshot: JobSnapshot): Decision {
  const { job, now, placement, waiting } = snapshot;
  if (phaseOf(job) === 'Suspended') {
    const status = statusWith(job, now, {
      phase: 'Pending',
      reason: 'Resumed',
      message: 'Resumed: waits for a slot.',
      set: { queueTime: new Date(now).toISOString() },
    });
    return { actions: [{ type: 'status', status }] };
  }

  const { pendingDeadlineSeconds } = job.spec;
  // The pause before a retry is the operator's own choice, so the wait begins after it.
  const expires =
    pendingDeadlineSeconds === undefined
      ? Number.POSITIVE_INFINITY
      : Math.max(queuedAt(job), retryAt(job)) + pendingDeadlineSeconds * 1000;
  if (now >= expires) {
    const message = `No agent took the job within ${pendingDeadlineSeconds} s (pendingDeadlineSeconds).`;
    const failure = {
      code: 'processing_failed',
      message: 'The work could not be completed in time.',
    } as const;
    const change = { phase: 'Failed', reason: 'PendingDeadlineExceeded', message, failure } as const;
    return { actions: [finish(job, now, change)] };
  }
  const requeueAfterMs = Number.isFinite(expires) ? expires - now : undefined;

  const backoff = retryAt(job) - now;
  if (backoff > 0) return { actions: [], requeueAfterMs: Math.min(backoff, requeueAfterMs ?? backoff) };
  if (placement) return { actions: [bind(snapshot, placement)] };
  if (waiting && !saysSo(job, waiting)) {
    const { reason, message, position, total } = waiting;
    const status = statusWith(job, now, {
      phase: 'Pending',
      reason,
      message,
      set: position === undefined ? {} : { queuePosition: position, ...(total && { queueLength: total }) },
      clear: position === undefined ? [...PLACE, 'retryTime'] : ['retryTime'],
    });
    return { actions: [{ type: 'status', status }], requeueAfterMs };
  }
  return { actions: [], requeueAfterMs };
}

/** Returns whether the status already shows the reason and the place. */
function saysSo(job: RenderJob, { reason, position }: WaitingReason): boolean {
  const ready = job.status?.conditions?.find(({ type }) => type === 'Ready');
  return job.status?.phase === 'Pending' && ready?.reason === reason && job.status.queuePosition === position;
}

function bind({ job, now }: JobSnapshot, placement: Placement): Action {
  const attempt = attemptOf(job) + 1;
  const message = `Attempt ${attempt} is bound to ${placement.agent}.`;
  const status = statusWith(job, now, {
    phase: 'Assigned',
    reason: 'Assigned',
    message,
    set: { attempt, agent: placement.agent, agentIncarnation: placement.incarnation },
    clear: [...PLACE, 'retryTime', 'startTime', 'progress', 'stage', 'etaSeconds'],
  });
  const event = { type: 'Normal', reason: 'Assigned', action: 'Bind', note: message } as const;
  return { type: 'status', status, hold: true, event };
}

function upTo(attempt: number): number[] {
  return Array.from({ length: attempt }, (_, i) => i + 1);
}
