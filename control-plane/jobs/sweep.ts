import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Database } from '../storage/database.ts';
import { isKept, isWithdrawn } from './let-go.ts';
import { hasBegun, isFinished } from './render-job-state.ts';

export interface SweepOptions {
  readonly database: Database;
  readonly reflector: Reflector<RenderJob>;
  readonly namespace: string;
  readonly logger: Logger;
  /** Called with a job whose RenderJob says something else than its row. */
  readonly onDifference: (jobId: string) => void;
}

/**
 * Returns a function that compares every unsettled job with its RenderJob, except for those that may be too young to have appeared; the
 * first time, right after the list, all. A job from the future was written before the database's clock was set
 * back, and is not young.
 */
export function createSweep(options: SweepOptions): (which?: { readonly first?: boolean }) => Promise<void> {
  const { database, reflector, namespace, onDifference } = options;
  return async ({ first = false } = {}) => {
    if (!first && (!reflector.hasSynced || reflector.healthySince === undefined)) return;
    const youngest = first ? 0 : 3;
    // In the order of the index on unsettled jobs, so that settled ones cost nothing.
    let after = { account: '', id: '' };
    for (;;) {
      const jobs = await database.sql<
        { id: string; account_id: string; renderjob_uid: string | null; status: string }[]
      >`
          select id, account_id, renderjob_uid, status from jobs
          where settled_at is null and (account_id, id) > (${after.account}, ${after.id})
            and coalesce(renderjob_at, created_at) not between now() - ${youngest}::int * interval '1 second'
                                                           and now() + ${youngest}::int * interval '1 second'
          order by account_id, id limit 500`;
      const last = jobs.at(-1);
      if (!last) return;
      after = { account: last.account_id, id: last.id };
      for (const job of jobs) {
        const renderJob = reflector.get(job.id, namespace);
        const differs = job.renderjob_uid !== null && renderJob?.metadata.uid !== job.renderjob_uid;
        const ahead =
          renderJob &&
          (isFinished(renderJob) ||
            (isKept(renderJob) && isWithdrawn(renderJob)) ||
            (hasBegun(renderJob) && job.status === 'queued'));
        if (differs || ahead) onDifference(job.id);
      }
      await repayLost(
        options,
        jobs.filter((job) => job.renderjob_uid === null).map((job) => job.id),
      );
    }
  };
}

/** A job without a RenderJob and without the debt to create one would wait for ever. */
async function repayLost(
  { database, logger }: Pick<SweepOptions, 'database' | 'logger'>,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return;
  const rows = await database.sql`
    insert into outbox (kind, job_id)
    select 'renderjob', j.id from jobs j
    where j.id = any(${ids}::text[]) and j.settled_at is null and j.renderjob_uid is null
      and not exists (select 1 from outbox o where o.job_id = j.id and o.kind = 'renderjob')
    returning job_id`;
  if (rows.length > 0)
    logger.error(
      { count: rows.length },
      'found jobs without a RenderJob and without an outbox row to create one',
    );
}
