import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '@semblance/common/errors';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { EventBus } from '@semblance/events/bus';
import { jobSubject } from '@semblance/events/jobs';
import type { Job, JobState } from '@semblance/proto/semblance/control/v1/control';
import { Gauge, type Registry } from 'prom-client';
import { JOB_COLUMNS, type JobRow, toJobRow } from '../jobs/job-row.ts';
import type { JobView } from '../jobs/job-view.ts';
import { createBatcher } from '../storage/batcher.ts';
import type { Database } from '../storage/database.ts';
import { progressOf, queueOf } from './render-job-state.ts';

export interface WatchHubOptions {
  readonly database: Database;
  readonly view: JobView;
  readonly events: EventBus;
  readonly reflector: Reflector<RenderJob>;
  readonly namespace: string;
  readonly logger: Logger;
  readonly registry: Registry;
  /** Interval at which all watched jobs are read, whatever events came. Default 5 s. */
  readonly sweepEveryMs?: number;
}

/**
 * Receives the present state of a job; undefined: the account has no such job. The record has no link; `withLinks` gives
 * it with links that end with an API key.
 */
export type JobListener = (
  state: JobState | undefined,
  withLinks?: (keyId: string | undefined) => Promise<Job>,
) => void;

export interface WatchHub {
  /** Reports the present state soon, and again at each change. @returns the function that ends it */
  watch(jobId: string, accountId: string, listener: JobListener): () => void;
  /** Reports that something about the job was committed. */
  nudge(jobId: string): void;
  run(signal: AbortSignal): Promise<void>;
}

interface Watched {
  readonly jobId: string;
  /** Each with the account that it asks for. */
  readonly listeners: Map<JobListener, string>;
  found?: {
    readonly job: Job;
    readonly withLinks: (keyId: string | undefined) => Promise<Job>;
    readonly accountId: string;
    readonly begun: boolean;
  };
  /** Summary of the last reported state. */
  told: string;
  reading: boolean;
  /** An event came during the read, so what is read may be older. */
  again: boolean;
  readonly unlisten: () => void;
}

type Found = {
  readonly row: JobRow;
  readonly accountId: string;
  readonly begun: boolean;
  readonly linkSeconds: number;
};

/**
 * Knows the present state of every watched job, and reports its changes. The record comes from the database, which
 * is read whenever an event or this process reports a change. Progress and place come from the local copy of the
 * RenderJob. Events may be lost, so all watched jobs are also read periodically.
 */
export function createWatchHub(options: WatchHubOptions): WatchHub {
  const { database, view, events, reflector, namespace, logger, sweepEveryMs = 5_000 } = options;
  const watched = new Map<string, Watched>();

  const read = createBatcher<string, Found | undefined>({
    deadlineMs: database.deadlineMs,
    maxSize: 500,
    run: (ids) => readJobs(database, ids),
  });

  function observe({ metadata: { name = '' } }: RenderJob) {
    const entry = watched.get(name);
    if (entry) tell(entry);
  }

  reflector.addHandlers({ onAdd: observe, onUpdate: observe });

  new Gauge({
    name: 'semblance_jobs_watched',
    help: 'Jobs that clients follow through this process.',
    registers: [options.registry],
    collect() {
      this.set(watched.size);
    },
  });

  function stateOf({ jobId, found }: Watched): JobState | undefined {
    if (!found) return undefined;
    const { job, begun } = found;
    const renderJob = reflector.get(jobId, namespace);
    const over = job.status === 'succeeded' || job.status === 'failed';
    if (over || !renderJob) return { job, begun };
    return {
      job,
      begun,
      // An attempt that the record does not contain yet would precede its status.
      progress: job.status === 'processing' ? progressOf(renderJob) : undefined,
      queue: queueOf(renderJob),
    };
  }

  /** @param newcomer is told in any case, the others only news */
  function tell(entry: Watched, newcomer?: JobListener) {
    const state = stateOf(entry);
    if (!state) return;
    const summary = summaryOf(state);
    const isNew = summary !== entry.told;
    entry.told = summary;
    for (const [listener, accountId] of [...entry.listeners]) {
      // Nobody may learn whether another account's job exists.
      if (accountId !== entry.found?.accountId) listener(undefined);
      else if (isNew || listener === newcomer) listener(state, entry.found.withLinks);
    }
  }

  async function refresh(entry: Watched): Promise<void> {
    if (entry.reading) {
      entry.again = true;
      return;
    }
    entry.reading = true;
    try {
      do {
        entry.again = false;
        const found = await read.submit(entry.jobId);
        if (!found) {
          for (const listener of [...entry.listeners.keys()]) listener(undefined);
          return;
        }
        const { row, accountId, begun, linkSeconds } = found;
        const withLinks = (keyId: string | undefined) => view.show(row, linkSeconds, keyId);
        const job = { ...(await view.show(row, linkSeconds)), outputUrl: undefined };
        entry.found = { job, withLinks, accountId, begun };
        tell(entry);
      } while (entry.again && entry.listeners.size > 0);
    } finally {
      entry.reading = false;
    }
  }

  const refreshOrWait = (entry: Watched) =>
    refresh(entry).catch((error) =>
      // The next event or sweep tries again.
      logger.debug({ jobId: entry.jobId }, `cannot read a watched job: ${describeError(error)}`),
    );

  function begin(jobId: string): Watched {
    const entry: Watched = {
      jobId,
      listeners: new Map(),
      told: '',
      reading: false,
      again: false,
      unlisten: events.listen(jobSubject(jobId), () => void refreshOrWait(entry)),
    };
    watched.set(jobId, entry);
    return entry;
  }

  return {
    watch(jobId, accountId, listener) {
      const entry = watched.get(jobId) ?? begin(jobId);
      entry.listeners.set(listener, accountId);
      tell(entry, listener);
      void refreshOrWait(entry);
      return () => {
        entry.listeners.delete(listener);
        if (entry.listeners.size > 0 || watched.get(jobId) !== entry) return;
        watched.delete(jobId);
        entry.unlisten();
      };
    },
    nudge(jobId) {
      const entry = watched.get(jobId);
      if (entry) void refreshOrWait(entry);
    },
    async run(signal) {
      while (!signal.aborted) {
        await delay(sweepEveryMs, undefined, { signal }).catch(() => {});
        if (signal.aborted) return;
        await Promise.all([...watched.values()].map(refreshOrWait));
      }
    },
  };
}

/** Returns the part of a state whose change counts; a link that was signed anew does not. */
function summaryOf({ job, begun, progress, queue }: JobState): string {
  const place = queue ? `${queue.position}/${queue.of}/${queue.reason}` : '';
  return `${job?.status} ${begun} ${progress ? `${progress.attempt}:${progress.percent}` : ''} ${place}`;
}

async function readJobs(database: Database, ids: readonly string[]): Promise<(Found | undefined)[]> {
  const rows = await database.fast`
    select ${JOB_COLUMNS}, j.account_id, j.processing_at, s.link_seconds from jobs j cross join settings s where j.id = any(${ids}::text[])`;
  const found = new Map(rows.map((row) => [row.id as string, row]));
  return ids.map((id) => {
    const row = found.get(id);
    return (
      row && {
        row: toJobRow(row),
        accountId: row.account_id as string,
        begun: row.processing_at !== null,
        linkSeconds: row.link_seconds as number,
      }
    );
  });
}
