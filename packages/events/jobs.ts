import type { BusEvent } from './bus.ts';

export const JOB_STATUSES = ['queued', 'processing', 'succeeded', 'failed'] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

/** Every job event; `semblance.jobs.<job id>.<status>` is one. */
export const JOB_SUBJECTS = 'semblance.jobs.>';

/**
 * A job reached a status. Statuses only move forward, but events of one job may arrive twice or out of order after a
 * fault: a consumer takes them as a sign to look at the job, or ignores one that lies behind what it knows.
 */
export interface JobEvent {
  readonly event: `job.${JobStatus}`;
  readonly job_id: string;
  readonly status: JobStatus;
  /** ISO 8601 UTC. */
  readonly at: string;
}

export function jobEvent(jobId: string, status: JobStatus, at: Date): BusEvent & { data: JobEvent } {
  return {
    subject: jobSubject(jobId, status),
    id: `${jobId}.${status}`,
    data: { event: `job.${status}`, job_id: jobId, status, at: at.toISOString() },
  };
}

/** Subject of a job's event; without an id or a status: of every job's, or every status's. */
export function jobSubject(jobId = '*', status: JobStatus | '*' = '*'): string {
  return `semblance.jobs.${jobId}.${status}`;
}

/** @throws TypeError when the data is no job event */
export function parseJobEvent(data: unknown): JobEvent {
  const event = data as Partial<JobEvent> | null;
  const known = JOB_STATUSES.some((status) => status === event?.status);
  if (!known || typeof event?.job_id !== 'string' || typeof event.at !== 'string')
    throw new TypeError('not a job event');
  return event as JobEvent;
}
