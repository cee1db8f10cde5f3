import type { BusEvent } from './bus.ts';

export const JOB_STATUSES = ['queued', 'processing', 'succeeded', 'failed'] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

/** Subjects of all job events. One subject is `semblance.jobs.<job id>.<status>`. */
export const JOB_SUBJECTS = 'semblance.jobs.>';

/**
 * Describes that a job reached a status. Statuses only move forward, but after a fault the events of one job may
 * arrive twice or out of order. A consumer uses them as a hint to read the job, or ignores an event older than its
 * knowledge.
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

/** Returns the subject of a job's event. Without an id or a status it matches every job, or every status. */
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
