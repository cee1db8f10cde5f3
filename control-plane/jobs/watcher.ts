import { setTimeout as delay } from 'node:timers/promises';
import { createWorkQueue } from '@semblance/common/async/work-queue';
import { describeError } from '@semblance/common/errors';
import type { KubeClient, Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import { createBatcher } from '../storage/batcher.ts';
import type { Database } from '../storage/database.ts';
import { historyOf } from './history.ts';
import { isJobId } from './job-row.ts';
import { createLetGo, isKept, isWithdrawn } from './let-go.ts';
import { hasBegun, isFinished } from './render-job-state.ts';
import { CANCELLED, type Settlement, type Settler } from './settle.ts';
import { createSweep } from './sweep.ts';

const DELETED = 'the RenderJob was deleted: the job is cancelled';

export interface JobWatcherOptions {
  readonly database: Database;
  readonly client: KubeClient;
  readonly reflector: Reflector<RenderJob>;
  readonly settler: Settler;
  readonly namespace: string;
  readonly logger: Logger;
  /** Called after the commit that made a job `processing`. */
  readonly onBegun: (begun: { jobId: string; eventTask: bigint }) => void;
  /** Pause between two comparisons of all unsettled jobs with their RenderJobs. Default 15 s. */
  readonly sweepEveryMs?: number;
}

/**
 * Follows RenderJobs and ends their jobs. Level-triggered: only the present state of resource and job counts, so an
 * event may be missed, repeated or late, and a periodic scan finds what no event reported.
 */
export function createJobWatcher(options: JobWatcherOptions) {
  const { database, client, reflector, settler, namespace, logger, sweepEveryMs = 15_000 } = options;
  /** Finished RenderJobs that were deleted before they were examined. */
  const lastSeen = new Map<string, RenderJob>();
  const settled = createRecent(20_000);
  const begun = createRecent(20_000);

  const queue = createWorkQueue({ name: 'jobs', concurrency: 8, logger, process, maxDelayMs: 5_000 });
  const letGo = createLetGo(options);
  const sweep = createSweep({
    database,
    reflector,
    namespace,
    logger,
    onDifference(name) {
      settled.delete(name);
      queue.add(name);
    },
  });

  reflector.addHandlers({
    onAdd: observe,
    onUpdate: observe,
    onDelete(renderJob) {
      const name = nameOf(renderJob);
      if (name === undefined || settled.has(name)) return;
      if (isFinished(renderJob)) lastSeen.set(name, renderJob);
      queue.add(name);
    },
    onSynced: () => void sweepOrWarn({ first: true }),
  });

  function observe(renderJob: RenderJob) {
    const name = nameOf(renderJob);
    const kept = isKept(renderJob);
    if (name === undefined || settled.has(name)) {
      // The RenderJob has no job: a copy that somebody made, with the finalizer.
      if (kept && (isFinished(renderJob) || isWithdrawn(renderJob))) letGo.add(renderJob.metadata.name ?? '');
      return;
    }
    // Of the many finished ones in the first list, only the kept ones may belong to unsettled jobs; the first scan
    // finds the few others.
    if (isFinished(renderJob)) {
      if (kept || reflector.hasSynced) queue.add(name);
    } else if ((kept && isWithdrawn(renderJob)) || (hasBegun(renderJob) && !begun.has(name))) queue.add(name);
  }

  async function process(name: string): Promise<undefined> {
    await end(name);
    if (settled.has(name)) letGo.add(name);
  }

  /** Ends or begins the job if it is time. */
  async function end(name: string): Promise<void> {
    if (settled.has(name)) return;
    const renderJob = lastSeen.get(name) ?? reflector.get(name, namespace);
    if (!renderJob) return cancelDeleted(name);
    const { uid } = renderJob.metadata;
    const finished = isFinished(renderJob);
    // It was deleted before it ended, and no agent has it or will get it, so nothing can come of it.
    const withdrawn = !finished && isKept(renderJob) && isWithdrawn(renderJob);
    if (!finished && !withdrawn)
      return hasBegun(renderJob) ? begin(name, renderJob) : cancelDeleted(name, uid);
    // Cheaper than asking the object store and locking the job's row.
    let outcome: Settlement = 'already';
    if (withdrawn)
      outcome = await settler.fail(name, uid, CANCELLED, {
        capability: renderJob.spec.capability,
        history: historyOf(renderJob),
      });
    else if (!(await isSettled.submit(name))) outcome = await settler.settleFrom(renderJob);
    lastSeen.delete(name);
    if (withdrawn && outcome === 'settled') logger.info({ jobId: name }, DELETED);
    if (outcome === 'fenced') await cancelDeleted(name, uid);
    else settled.add(name);
  }

  const isSettled = createBatcher<string, boolean>({
    deadlineMs: database.deadlineMs,
    async run(ids) {
      const rows = await database.fast<{ id: string }[]>`
        select id from jobs where id = any(${ids}::text[]) and settled_at is not null`;
      const found = new Set(rows.map(({ id }) => id));
      return ids.map((id) => found.has(id));
    },
  });

  async function begin(name: string, { metadata: { uid = '' } }: RenderJob): Promise<void> {
    const [row] = await database.sql<{ task: bigint | null }[]>`select begin_job(${name}, ${uid}) as task`;
    begun.add(name);
    if (row?.task != null) options.onBegun({ jobId: name, eventTask: row.task });
    else await cancelDeleted(name, uid);
  }

  /**
   * Cancels a job whose own RenderJob is gone because a person deleted it. The local copy raises the suspicion; the
   * API decides.
   * @param seen uid of the RenderJob that has the name now
   */
  async function cancelDeleted(name: string, seen?: string): Promise<undefined> {
    const [job] = await database.sql<{ renderjob_uid: string | null; settled_at: Date | null }[]>`
        select renderjob_uid, settled_at from jobs where id = ${name}`;
    if (!job || job.settled_at) {
      settled.add(name);
      return;
    }
    // Without a uid it was never created, and the outbox still owes it.
    if (job.renderjob_uid === null || job.renderjob_uid === seen) return;
    const found = await client.find(RENDERJOB_RESOURCE, { name, namespace });
    if (found?.metadata.uid === job.renderjob_uid) {
      reflector.note(found);
      return;
    }
    logger.info({ jobId: name }, DELETED);
    await settler.fail(name, job.renderjob_uid, CANCELLED);
    settled.add(name);
  }

  const sweepOrWarn = (which?: { first: boolean }) =>
    sweep(which).catch((error) => logger.warn(`cannot sweep jobs: ${describeError(error)}`));

  return {
    /** Works until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      const sweeping = async () => {
        while (!signal.aborted) {
          await delay(sweepEveryMs, undefined, { signal }).catch(() => {});
          if (signal.aborted) return;
          await sweepOrWarn();
        }
      };
      await Promise.all([queue.run(signal), letGo.run(signal), sweeping()]);
    },
  };
}

/** Returns the job of a RenderJob; undefined for one that a person made. */
function nameOf({ metadata: { name }, spec }: RenderJob): string | undefined {
  return name !== undefined && spec.account && isJobId(name) ? name : undefined;
}

function createRecent(size: number) {
  const names = new Set<string>();
  return {
    has: (name: string) => names.has(name),
    delete: (name: string) => names.delete(name),
    add(name: string) {
      names.add(name);
      for (const oldest of names) {
        if (names.size <= size) break;
        names.delete(oldest);
      }
    },
  };
}
