import { hash } from 'node:crypto';
import { jobRecord } from '@semblance/common/job-record';
import type { JobQueue, JobState } from '@semblance/proto/semblance/control/v1/control';

/**
 * Holds what a client has been told of a job. Event ids say it: whoever reconnects with one is told what is new
 * since.
 */
export interface Seen {
  /** 0 nothing, 1 queued, 2 processing, 3 succeeded or failed. */
  readonly status: number;
  readonly attempt: number;
  readonly percent: number;
  /** Its place, `position-of-reason`; empty when it was not told or is outdated. */
  readonly queue: string;
}

export const NOTHING: Seen = { status: 0, attempt: 0, percent: 0, queue: '' };
export const ENDED = 3;

const STAGES: Readonly<Record<string, number>> = { queued: 1, processing: 2, succeeded: 3, failed: 3 };

const ID = /^([123])\.(\d{1,9})\.(\d{1,3})\.((?:\d{1,9}-\d{1,9}-[a-z_]{0,32})?)\.[\w-]{11}$/;

/** Event ids of jobs: what the client has been told, sealed for the job it was told of. */
export interface EventIds {
  format(jobId: string, seen: Seen): string;
  /** Returns what a Last-Event-ID says; one that was not sent of this job says nothing. */
  parse(jobId: string, id: string | undefined): Seen;
}

/** @param secret shared by the gateways of an installation, so that any of them takes the ids of the others */
export function createEventIds(secret: string): EventIds {
  const key = hash('sha256', `event ids ${secret}`, 'base64url');
  // Those who follow one job are told the same one after the other: the newest id is made once for all of them.
  let newest = '';
  let sealed = '';
  function format(jobId: string, { status, attempt, percent, queue }: Seen): string {
    const text = `${status}.${attempt}.${percent}.${queue}`;
    const named = `${key} ${jobId} ${text}`;
    if (named === newest) return sealed;
    newest = named;
    // Not an Hmac object, of which each keeps kilobytes outside of the heap until it is collected. So little of the
    // digest is shown that nobody can go on from it to that of a longer text.
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
  /** Events as the stream carries them; empty: nothing is new. */
  readonly text: string;
  readonly seen: Seen;
  /** The terminal status is among them, or had been told before. */
  readonly over: boolean;
}

/**
 * Returns what is new in a job's state to a client. A status is told once and never taken back. One that was passed
 * while the client was away is told too, before the present one, so that a client which follows sees them all; one
 * that has just come is told the present one alone. Of progress and place, which replace each other, only the newest
 * is told.
 */
export function tellNews(state: JobState, before: Seen, ids: EventIds): Told {
  const { job } = state;
  const stage = STAGES[job?.status ?? ''] ?? 0;
  // Told by a process that lags behind the one that was heard before.
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
