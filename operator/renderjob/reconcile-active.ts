import { backoffMs } from '@semblance/common/async/backoff';
import { AttemptState } from '@semblance/proto/semblance/agent/v1/agent';
import type { JobSnapshot } from './job-snapshot.ts';
import { began, etaOf, failureOf, foundBy, isNewsOfTime, outputOf, percent } from './report.ts';
import { attemptOf, finish, PLACE, phaseOf, type StatusChange, statusWith } from './status.ts';
import type { Action, Decision } from './types.ts';

/** First wait after an interrupted attempt, in ms; it doubles each time. */
const RETRY_BASE_MS = 1_000;
const RETRY_MAX_MS = 60_000;
/** Number of lost agents at which the job counts as the cause. */
export const MAX_LOST_AGENTS = 8;
/** How long past its deadline a job waits for the confirmation of the stop, in ms. */
const STOP_PATIENCE_MS = 60_000;
/** How long past the deadline the agent may still end the attempt itself, in ms. */
const DEADLINE_GRACE_MS = 3_000;
/**
 * An attempt that ends within this time of its first report is never written as running, in ms: nobody could have
 * read it.
 */
const RUNNING_AFTER_MS = 500;
/** What a job's owner is told of faults of the service. */
const UNCOMPLETED = { code: 'processing_failed', message: 'The work could not be completed.' } as const;

/** Decides for a job that is bound to an agent. */
export function decideActive(snapshot: JobSnapshot): Decision {
  const { job, now, facts, fate } = snapshot;
  const { report } = facts;
  switch (report?.state) {
    case AttemptState.ATTEMPT_STATE_SUCCEEDED:
      return succeeded(snapshot, report);
    case AttemptState.ATTEMPT_STATE_FAILED: {
      const failure = failureOf(report);
      const set = { ...began(job, report, now), ...foundBy(report) };
      const change = {
        phase: 'Failed',
        reason: 'WorkFailed',
        message: failure.message,
        set,
        failure,
      } as const;
      return { actions: [finish(job, now, change), { type: 'acknowledge' }] };
    }
    case AttemptState.ATTEMPT_STATE_INTERRUPTED:
      return interrupted(snapshot, report.failure?.message || 'the attempt was interrupted');
    case AttemptState.ATTEMPT_STATE_STOPPED:
      return stopped(snapshot);
  }
  if (fate === 'lost' || fate === 'replaced') return lostAgent(snapshot);
  if (facts.stopped) return stopped(snapshot);
  return phaseOf(job) === 'Stopping' ? stopping(snapshot) : going(snapshot);
}

/** Returns the deadline of the present attempt, in Unix milliseconds. */
function deadlineOf({ job }: JobSnapshot): number {
  const from = Date.parse(job.status?.startTime ?? '');
  return Number.isNaN(from)
    ? Number.POSITIVE_INFINITY
    : from + (job.spec.activeDeadlineSeconds ?? 3_600) * 1000;
}

function succeeded(snapshot: JobSnapshot, report: NonNullable<JobSnapshot['facts']['report']>): Decision {
  const { job, now } = snapshot;
  const output = outputOf(job, attemptOf(job), report.output);
  if ('fault' in output) return interrupted(snapshot, output.fault);
  const took = (output.stages ?? []).reduce((sum, { milliseconds }) => sum + milliseconds, 0);
  const by = output.engine ? ` by ${output.engine}` : '';
  const message = `Rendered on ${job.status?.agent}${by}${took > 0 ? ` in ${(took / 1000).toFixed(2)} s` : ''}.`;
  const set = { output, ...began(job, report, now) };
  return {
    actions: [
      finish(job, now, { phase: 'Succeeded', reason: 'Succeeded', message, set, clear: ['findings'] }),
      { type: 'acknowledge' },
    ],
  };
}

/** A fault of the engine or store ended the attempt. It counts against backoffLimit. */
function interrupted(snapshot: JobSnapshot, why: string): Decision {
  const { job, now, facts } = snapshot;
  if (job.spec.suspend || isPastDeadline(snapshot)) return stopped(snapshot);
  const interruptions = (job.status?.interruptions ?? 0) + 1;
  const limit = job.spec.backoffLimit ?? 2;
  if (interruptions > limit) {
    const message = `Attempt ${attemptOf(job)} was interrupted, as ${limit} before it (backoffLimit): ${why}`;
    return {
      actions: [
        finish(job, now, {
          phase: 'Failed',
          reason: 'BackoffLimitExceeded',
          message,
          set: {
            interruptions,
            ...(facts.report ? began(job, facts.report, now) : {}),
            ...foundBy(facts.report),
          },
          failure: UNCOMPLETED,
        }),
        { type: 'acknowledge' },
      ],
    };
  }
  const wait = backoffMs(interruptions - 1, RETRY_BASE_MS, RETRY_MAX_MS);
  const message = `Attempt ${attemptOf(job)} on ${job.status?.agent} was interrupted (${interruptions} of ${limit} allowed), the next begins after ${Math.round(wait / 1000)} s: ${why}`;
  const set = { interruptions, ...foundBy(facts.report) };
  return requeue(snapshot, wait, { reason: 'Interrupted', message, set });
}

/**
 * The agent is gone, and its work with it. This does not count against backoffLimit, but a job that loses too many
 * agents fails. Deleted Pods and drained nodes do not count at all, because people and autoscalers may cause any
 * number of them.
 */
function lostAgent(snapshot: JobSnapshot): Decision {
  const { job, now, fate } = snapshot;
  if (job.spec.suspend || isPastDeadline(snapshot)) return stopped(snapshot);
  const agent = job.status?.agent;
  if (snapshot.ended !== undefined) {
    const message = `Attempt ${attemptOf(job)} ended with ${agent}: ${snapshot.ended} It will be retried, and does not count.`;
    return requeue(snapshot, 0, { reason: 'Disrupted', message });
  }
  const lostAgents = (job.status?.lostAgents ?? 0) + 1;
  const how = fate === 'replaced' ? `${agent} restarted` : `${agent} stopped renewing its Lease`;
  if (lostAgents >= MAX_LOST_AGENTS) {
    const message = `${lostAgents} agents went away while they held this job; it is taken to be the cause. The last: ${how}.`;
    const change = { phase: 'Failed', reason: 'AgentsLost', message, failure: UNCOMPLETED } as const;
    return { actions: [finish(job, now, { ...change, set: { lostAgents } })] };
  }
  const wait = lostAgents < 3 ? 0 : backoffMs(lostAgents - 3, RETRY_BASE_MS, RETRY_MAX_MS);
  const message = `Attempt ${attemptOf(job)} was lost: ${how}. It will be retried.`;
  return requeue(snapshot, wait, { reason: 'AgentLost', message, set: { lostAgents } });
}

/** The attempt was stopped: by the operator, or by an agent that drains, ends or could not take it. */
function stopped(snapshot: JobSnapshot): Decision {
  const { job, now, facts } = snapshot;
  const actions: Action[] = facts.report ? [{ type: 'acknowledge' }] : [];
  if (isPastDeadline(snapshot)) {
    const message = `Attempt ${attemptOf(job)} ran longer than ${job.spec.activeDeadlineSeconds ?? 3_600} s (activeDeadlineSeconds).`;
    const failure = { code: 'processing_failed', message: 'The work took too long.' } as const;
    return {
      actions: [
        finish(job, now, { phase: 'Failed', reason: 'DeadlineExceeded', message, failure }),
        ...actions,
      ],
    };
  }
  if (job.spec.suspend) {
    const status = statusWith(job, now, {
      phase: 'Suspended',
      reason: 'Suspended',
      message: `Held back by spec.suspend; attempt ${attemptOf(job)} on ${job.status?.agent} was stopped.`,
      clear: ['progress', 'stage', 'etaSeconds', 'startTime', ...PLACE, 'retryTime'],
    });
    const note = `Attempt ${attemptOf(job)} was stopped and the job held back`;
    const event = { type: 'Normal', reason: 'Suspended', action: 'Stop', note } as const;
    return { actions: [{ type: 'status', status, event }, ...actions] };
  }
  const { startRefused } = facts;
  if (startRefused?.kind === 'unable') return interrupted(snapshot, startRefused.message);
  const why = startRefused ? `was not taken on: ${startRefused.message}` : 'was stopped';
  const message = `Attempt ${attemptOf(job)} on ${job.status?.agent} ${why}. It will be retried.`;
  return requeue(snapshot, 0, { reason: startRefused ? 'NotTaken' : 'Stopped', message });
}

function isPastDeadline(snapshot: JobSnapshot): boolean {
  // The agent keeps the deadline by its own clock, which may be slightly ahead.
  return snapshot.now >= deadlineOf(snapshot) - 1_000;
}

function requeue(
  snapshot: JobSnapshot,
  waitMs: number,
  change: Omit<StatusChange, 'phase' | 'clear'>,
): Decision {
  const { job, now, facts } = snapshot;
  const status = statusWith(job, now, {
    ...change,
    phase: 'Pending',
    set: {
      ...change.set,
      queueTime: new Date(now).toISOString(),
      ...(waitMs > 0 ? { retryTime: new Date(now + waitMs).toISOString() } : {}),
    },
    clear: [
      'progress',
      'stage',
      'etaSeconds',
      'startTime',
      ...PLACE,
      ...(waitMs > 0 ? [] : ['retryTime' as const]),
    ],
  });
  const event = { type: 'Warning', reason: change.reason, action: 'Retry', note: change.message } as const;
  return {
    actions: [{ type: 'status', status, event }, ...(facts.report ? [{ type: 'acknowledge' } as const] : [])],
  };
}

/** Carries out a recorded stop. */
function stopping(snapshot: JobSnapshot): Decision {
  const { job, now, fate } = snapshot;
  const patience = deadlineOf(snapshot) + STOP_PATIENCE_MS - now;
  if (patience <= 0 && !job.spec.suspend) {
    // No other attempt follows, so nothing can run twice. The slot stays taken until the agent says otherwise.
    const message = `Attempt ${attemptOf(job)} ran longer than ${job.spec.activeDeadlineSeconds ?? 3_600} s (activeDeadlineSeconds), and ${job.status?.agent} did not confirm that it stopped.`;
    const failure = { code: 'processing_failed', message: 'The work took too long.' } as const;
    return {
      actions: [finish(job, now, { phase: 'Failed', reason: 'DeadlineExceeded', message, failure })],
    };
  }
  const requeueAfterMs = Number.isFinite(patience) && patience > 0 ? patience : undefined;
  if (fate !== 'connected') return { actions: [], requeueAfterMs };
  const ready = job.status?.conditions?.find(({ type }) => type === 'Ready');
  return { actions: [{ type: 'stop', reason: ready?.reason ?? 'Stopping' }] };
}

/** The attempt is Assigned or Running, and nothing says that it is over. */
function going(snapshot: JobSnapshot): Decision {
  const { job, now, facts, fate, progressDue } = snapshot;
  const { report, startAccepted, startRefused } = facts;
  const attempt = attemptOf(job);
  const agent = job.status?.agent;
  if (job.spec.suspend)
    return stop(snapshot, 'Suspending', `${agent} is stopping attempt ${attempt} for spec.suspend.`);
  const left = deadlineOf(snapshot) + DEADLINE_GRACE_MS - now;
  if (left <= 0)
    return stop(snapshot, 'DeadlineExceeded', `${agent} is stopping attempt ${attempt}: its time is over.`);
  const requeueAfterMs = Number.isFinite(left) ? left : undefined;

  if (report) {
    const progress = percent(report);
    const eta = etaOf(report);
    const running = phaseOf(job) === 'Running';
    const unmoved = job.status?.progress === progress && job.status.stage === (report.stage || undefined);
    if (running && unmoved && !isNewsOfTime(job.status?.etaSeconds, eta)) {
      return { actions: [], requeueAfterMs };
    }
    const young = running ? 0 : (facts.heardAt ?? 0) + RUNNING_AFTER_MS - now;
    if (young > 0) return { actions: [], requeueAfterMs: Math.min(young, left) };
    // Progress is worth one write a second. The first write as Running comes as soon as the attempt has lasted.
    if (running && !progressDue) return { actions: [], requeueAfterMs: Math.min(1_000, left) };
    const status = statusWith(job, now, {
      phase: 'Running',
      reason: 'Running',
      message: `Attempt ${attempt} runs on ${agent}.`,
      set: {
        progress,
        ...(report.stage ? { stage: report.stage.slice(0, 64) } : {}),
        ...(eta === undefined ? {} : { etaSeconds: eta }),
        ...began(job, report, now),
      },
      clear: [
        ...(report.stage ? [] : (['stage'] as const)),
        ...(eta === undefined ? (['etaSeconds'] as const) : []),
      ],
    });
    return { actions: [{ type: 'status', status }], requeueAfterMs };
  }
  if (fate !== 'connected') return { actions: [], requeueAfterMs };
  // The agent holds no such attempt: it never began or was forgotten. Unlike a start, a stop is right in both
  // cases.
  if (phaseOf(job) === 'Running' && !startAccepted) {
    return stop(snapshot, 'AttemptLost', `${agent} no longer knows attempt ${attempt}.`);
  }
  if (startRefused) return stop(snapshot, 'NotTaken', `${agent} did not take attempt ${attempt} on.`);
  return startAccepted ? { actions: [], requeueAfterMs } : { actions: [{ type: 'start' }], requeueAfterMs };
}

function stop({ job, now }: JobSnapshot, reason: string, message: string): Decision {
  return {
    actions: [{ type: 'status', status: statusWith(job, now, { phase: 'Stopping', reason, message }) }],
  };
}
