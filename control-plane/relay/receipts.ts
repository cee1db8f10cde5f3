import type { Database } from '../storage/database.ts';

/** A paid debt. */
export interface Receipt {
  /** Id of the debt. */
  readonly id: bigint;
  readonly jobId: string;
  /** uid of the RenderJob, when the debt was to create it. */
  readonly renderJobUid: string | undefined;
}

export interface ReceiptsOptions {
  readonly database: Database;
  /** Time for which the first of a statement waits for others, in ms. Default 20. */
  readonly lingerMs?: number;
  readonly maxSize?: number;
}

/**
 * Records payments, many in one statement. Nobody waits for it, and until a payment is recorded the debt is merely
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
    const jobs = created.map(({ jobId }) => jobId);
    const uids = created.map((receipt) => receipt.renderJobUid as string);
    // Losing this in a crash of the server loses nothing: the debt is paid again, without effect.
    await database.fast`select record_payments(${ids}::bigint[], ${jobs}::text[], ${uids}::text[])`;
  }

  return {
    /** Resolves when it is recorded. @throws the error of the database */
    record(receipt: Receipt): Promise<void> {
      return new Promise((resolve, reject) => {
        waiting.push({ receipt, resolve, reject });
        if (waiting.length >= maxSize) flush();
        else timer ??= setTimeout(flush, lingerMs);
      });
    },
  };
}
