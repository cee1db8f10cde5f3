import { hash } from 'node:crypto';
import { jobRecord } from '@semblance/common/job-record';
import type { JobQueue, JobState } from '@semblance/proto/semblance/control/v1/control';

/**
 * What a client has received about a job. Event ids contain it, so a client that reconnects with one receives only
 * news.
 */
export interface Seen {
  /** 0 nothing, 1 queued, 2 processing, 3 succeeded or failed. */
  readonly status: number;
  readonly attempt: number;
  readonly percent: number;
  /** The last sent place, `position-of-reason`; empty when none was sent or it is outdated. */
  readonly queue: string;
}

export const NOTHING: Seen = { status: 0, attempt: 0, percent: 0, queue: '' };
export const ENDED = 3;

const STAGES: Readonly<Record<string, number>> = { queued: 1, processing: 2, succeeded: 3, failed: 3 };

const ID = /^([123])\.(\d{1,9})\.(\d{1,3})\.((?:\d{1,9}-\d{1,9}-[a-z_]{0,32})?)\.[\w-]{11}$/;

/** Event ids of jobs: what the client has received, sealed for its job. */
export interface EventIds {
  format(jobId: string, seen: Seen): string;
  /** Parses a Last-Event-ID; one that does not belong to this job counts as nothing received. */
  parse(jobId: string, id: string | undefined): Seen;
}

/** @param secret shared by the gateways of an installation, so that each accepts the others' ids */
export function createEventIds(secret: string): EventIds {
  const key = hash('sha256', `event ids ${secret}`, 'base64url');
  // Followers of one job receive the same events one after the other, so the newest id is made once for all.
  let newest = '';
  let sealed = '';
  function format(jobId: string, { status, attempt, percent, queue }: Seen): string {
    const text = `${status}.${attempt}.${percent}.${queue}`;
    const named = `${key} ${jobId} ${text}`;
    if (named === newest) return sealed;
    newest = named;
    // `hash` instead of an Hmac object, because each Hmac keeps kilobytes outside the heap until it is collected. So little of the digest is shown that it cannot be extended to a longer text.
    sealed = `${text}.${hash('sha256', named, 'base64url').slice(0, 11)}`;
    return sealed;
  }
  return {
    format,
    parse(jobId, id) {
      const match = ID.exec(id ?? '');
      if (!match) return NOTHING;
      const [, status, attempt, percent, queue = ''] = match;
      const seen = { status: Number(status), attempt: Number(attempt), percent: Number(percent), queue };
      return format(jobId, seen) === id ? seen : NOTHING;
    },
  };
}

export interface Told {
  /** Events in the format of the stream; empty when nothing is new. */
  readonly text: string;
  readonly seen: Seen;
  /** The terminal status is among them, or was sent before. */
  readonly over: boolean;
}

/**
 * Returns the parts of a job's state that are new to a client. A status is sent once and never taken back. A status
 * that passed while the client was away is sent too, before the present one, so that a following client sees them
 * all; a new client receives only the present one. Progress and place replace each other, so only the newest is
 * sent.
 */
export function tellNews(state: JobState, before: Seen, ids: EventIds): Told {
  const { job } = state;
  const stage = STAGES[job?.status ?? ''] ?? 0;
  // The state comes from a process that lags behind an earlier one.
  if (!job || stage < before.status) return { text: '', seen: before, over: false };
  let seen = before;
  let text = '';
  const tell = (name: string, change: Partial<Seen>, data: unknown) => {
    seen = { ...seen, ...change };
    text += `id: ${ids.format(job.id, seen)}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
  };

  if (before.status === 1 && stage === ENDED && state.begun) {
    const passed = {
      id: job.id,
      status: 'processing',
      outputUrl: undefined,
      chargedMicros: undefined,
      error: undefined,
      metadata: job.metadata,
    };
    tell('status', { status: 2, queue: '' }, jobRecord(passed));
  }
  if (stage > seen.status) {
    const change = { status: stage, ...(stage === 1 ? {} : { queue: '' }) };
    tell('status', change, jobRecord(job));
  }
  if (stage === ENDED) return { text, seen, over: true };

  const { queue, progress } = state;
  if (queue) {
    const place = placeOf(queue);
    if (place !== seen.queue) {
      const { position, of, reason } = queue;
      tell('queue', { queue: place }, { position: position || null, of: of || null, reason: reason || null });
    }
  } else if (progress && isFurther(progress, seen)) {
    const { attempt, percent, etaSeconds = null } = progress;
    const data = { attempt, progress: percent / 100, eta_seconds: etaSeconds };
    tell('progress', { attempt, percent, queue: '' }, data);
  }
  return { text, seen, over: false };
}

function placeOf({ position, of, reason }: JobQueue): string {
  return `${position}-${of}-${reason}`;
}

function isFurther({ attempt, percent }: { attempt: number; percent: number }, seen: Seen): boolean {
  return attempt > seen.attempt || (attempt === seen.attempt && percent > seen.percent);
}
