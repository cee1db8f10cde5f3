import type { Database } from '../storage/database.ts';

/** A debt that was paid. */
export interface Receipt {
  /** Of the debt. */
  readonly id: bigint;
  readonly jobId: string;
  /** Of the RenderJob, when the debt was to create it. */
  readonly renderJobUid: string | undefined;
}

export interface ReceiptsOptions {
  readonly database: Database;
  /** How long the first of a statement waits for others. Default 20. */
  readonly lingerMs?: number;
  readonly maxSize?: number;
}

/**
 * Records what was paid, many debts in one statement: nobody waits for it, and until it is recorded a debt is merely
 * paid again.
 */
export function createReceipts({ database, lingerMs = 20, maxSize = 256 }: ReceiptsOptions) {
  type Entry = { receipt: Receipt; resolve: () => void; reject: (error: unknown) => void };
  let waiting: Entry[] = [];
  let timer: NodeJS.Timeout | undefined;

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    const batch = waiting;
    waiting = [];
    write(batch.map(({ receipt }) => receipt)).then(
      () => {
        for (const { resolve } of batch) resolve();
      },
      (error) => {
        for (const { reject } of batch) reject(error);
      },
    );
  }

  async function write(paid: Receipt[]): Promise<void> {
    const created = paid.filter(({ renderJobUid }) => renderJobUid !== undefined);
    const ids = paid.map(({ id }) => id.toString());
    // Jobs are locked in the order of ids, as settlements lock them: the two never wait for each other in a circle.
    // Losing this to a crash of the server loses nothing: the debt is paid again, without effect.
    if (created.length === 0) await database.fast`delete from outbox where id = any(${ids}::bigint[])`;
    else
      await database.fast`
        with settled as (
          delete from outbox where id = any(${ids}::bigint[])
        ), made as (
          select j.id, q.uid
          from unnest(${created.map(({ jobId }) => jobId)}::text[], ${created.map((receipt) => receipt.renderJobUid as string)}::text[]) as q(job, uid)
          join jobs j on j.id = q.job
          where j.renderjob_uid is null order by j.id for no key update of j
        )
        update jobs j set renderjob_uid = made.uid, renderjob_at = now() from made where j.id = made.id`;
  }

  return {
    /** Resolves when it is recorded. @throws what kept the database from it */
    record(receipt: Receipt): Promise<void> {
      return new Promise((resolve, reject) => {
        waiting.push({ receipt, resolve, reject });
        if (waiting.length >= maxSize) flush();
        else timer ??= setTimeout(flush, lingerMs);
      });
    },
  };
}
