import { setTimeout as delay } from 'node:timers/promises';
import { createWorkQueue } from '@semblance/common/async/work-queue';
import { describeError } from '@semblance/common/errors';
import { isKubeError, type KubeClient, type Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Database } from '../storage/database.ts';
import { isJobId } from './job-row.ts';
import { CANCELLED, type SettledFacts, type Settler } from './settle.ts';

export interface CancellerOptions {
  readonly database: Database;
  readonly client: KubeClient;
  readonly reflector: Pick<Reflector<RenderJob>, 'list' | 'hasSynced'>;
  readonly settler: Pick<Settler, 'fail'>;
  readonly namespace: string;
  readonly logger: Logger;
  /** Called for a job that the recording itself ended. */
  readonly onSettled: (facts: SettledFacts) => void;
  /** Pause between two searches for unwanted RenderJobs. Default 15 s. */
  readonly sweepEveryMs?: number | undefined;
}

export interface Canceller {
  /**
   * Records that a job is cancelled. After its end, or again, this changes nothing.
   * @returns false when the account has no such job
   */
  cancel(accountId: string, jobId: string): Promise<boolean>;
  /** Records that the jobs of a batch that have not ended are cancelled, all or none of them. */
  cancelBatch(accountId: string, batchId: string): Promise<void>;
  /** Returns true when this process recorded it lately; it does not know other processes. */
  wasCancelled(jobId: string): boolean;
  /** Deletes the RenderJob of a cancelled or ended job; ends the job when there is none. Harmless to repeat. */
  withdraw(jobId: string): Promise<void>;
  /**
   * Carries out the recorded cancels, and deletes RenderJobs that were created after their job had ended, until
   * aborted.
   */
  run(signal: AbortSignal): Promise<void>;
}

type Recorded = {
  outcome: 'unknown' | 'ended' | 'repeated' | 'requested' | 'cancelled';
  capability: string | null;
  renderjob_task: bigint | null;
  event_task: bigint | null;
  hold_micros: bigint | null;
};

/**
 * Cancels jobs for their owners. One transaction records the cancel and owes the deletion of the RenderJob; from
 * then on the job can end in no other way. The operator stops the work before it releases the RenderJob, and then
 * the watcher ends the job. So held money, and the count of jobs in flight, belong to work that may still run.
 */
export function createCanceller(options: CancellerOptions): Canceller {
  const { database, client, reflector, settler, namespace, logger, sweepEveryMs = 15_000 } = options;
  const recent = new Set<string>();
  // Not through the outbox, where it would wait behind a rush of creations while the work goes on. Cancels that
  // this process does not reach are owed there all the same.
  const queue = createWorkQueue({
    name: 'cancellations',
    concurrency: 8,
    logger,
    maxDelayMs: 2_000,
    async process(jobId) {
      await withdraw(jobId);
      await database.fast`delete from outbox where job_id = ${jobId} and kind = 'renderjob'`;
      return undefined;
    },
  });

  async function cancel(accountId: string, jobId: string): Promise<boolean> {
    if (!isJobId(jobId)) return false;
    const [row] = await database.sql<Recorded[]>`
      select c.*, j.hold_micros from cancel_job(${jobId}, ${accountId}) c left join jobs j on j.id = ${jobId}`;
    if (!row || row.outcome === 'unknown') return false;
    carryOut(jobId, row);
    return true;
  }

  async function cancelBatch(accountId: string, batchId: string): Promise<void> {
    const rows = await database.sql<(Recorded & { job_id: string })[]>`
      select c.job_id, c.hold_micros, (c.cancelled).* from cancel_batch(${batchId}, ${accountId}) c`;
    for (const row of rows) carryOut(row.job_id, row);
  }

  /** Goes on with a recorded cancel; whatever this process does not reach is owed. */
  function carryOut(jobId: string, row: Recorded): void {
    if (row.renderjob_task !== null) {
      remember(jobId);
      queue.add(jobId);
    }
    if (row.event_task !== null)
      options.onSettled({
        jobId,
        status: 'failed',
        eventTask: row.event_task,
        chargedMicros: 0n,
        shortfallMicros: 0n,
        holdMicros: row.hold_micros ?? 0n,
        reason: CANCELLED.reason,
        capability: row.capability ?? undefined,
      });
  }

  function remember(jobId: string) {
    recent.add(jobId);
    for (const oldest of recent) {
      if (recent.size <= 10_000) break;
      recent.delete(oldest);
    }
  }

  async function withdraw(jobId: string): Promise<void> {
    const [job] = await database.sql<
      { account_id: string; renderjob_uid: string | null; ended: boolean; cancelled: boolean }[]
    >`select account_id, renderjob_uid, settled_at is not null as ended, cancel_requested_at is not null as cancelled
        from jobs where id = ${jobId}`;
    if (!job?.ended && !job?.cancelled) return;
    const found = await client.find(RENDERJOB_RESOURCE, { name: jobId, namespace });
    const own =
      found?.spec.account === job.account_id &&
      (job.renderjob_uid === null || found.metadata.uid === job.renderjob_uid);
    if (found && own) return remove(found);
    // The operator releases a RenderJob only after its work has stopped.
    if (!job.ended) await settler.fail(jobId, job.renderjob_uid ?? undefined, CANCELLED);
  }

  /** A finished one stays for its time: the watcher ends its job. */
  async function remove(renderJob: RenderJob): Promise<void> {
    const { name = '', uid, deletionTimestamp } = renderJob.metadata;
    if (deletionTimestamp || isFinished(renderJob)) return;
    try {
      await client.delete(RENDERJOB_RESOURCE, { name, namespace }, { uid });
    } catch (error) {
      // It is gone, or is another one by now.
      if (!isKubeError(error, 'not_found', 'conflict')) throw error;
    }
  }

  /**
   * A creation under way during the cancel may come late, from any process, and that process may be killed before
   * it notices.
   */
  async function sweep(): Promise<void> {
    if (!reflector.hasSynced) return;
    const ids = reflector.list().flatMap((renderJob) => {
      const { name = '', deletionTimestamp } = renderJob.metadata;
      const wanted = !deletionTimestamp && !isFinished(renderJob) && renderJob.spec.account && isJobId(name);
      return wanted ? [name] : [];
    });
    for (let at = 0; at < ids.length; at += 1_000) {
      const rows = await database.fast<{ id: string }[]>`
        select id from jobs where id = any(${ids.slice(at, at + 1_000)}::text[])
          and (settled_at is not null or cancel_requested_at is not null)`;
      for (const { id } of rows) await withdraw(id);
    }
  }

  return {
    cancel,
    cancelBatch,
    wasCancelled: (jobId) => recent.has(jobId),
    withdraw,
    async run(signal) {
      const sweeping = async () => {
        while (!signal.aborted) {
          await delay(sweepEveryMs, undefined, { signal }).catch(() => {});
          if (signal.aborted) return;
          await sweep().catch((error) => logger.warn(`cannot sweep RenderJobs: ${describeError(error)}`));
        }
      };
      await Promise.all([queue.run(signal), sweeping()]);
    },
  };
}

function isFinished({ status }: RenderJob): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}
