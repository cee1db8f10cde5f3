import { createWorkQueue } from '@semblance/common/async/work-queue';
import type { Logger } from '@semblance/common/logging';
import type { Database } from '../storage/database.ts';
import type { Canceller } from './cancel.ts';

export interface RetractorOptions {
  readonly database: Database;
  readonly canceller: Pick<Canceller, 'cancel'>;
  readonly logger: Logger;
}

export interface Retractor {
  /** Retracts a submit that may have been carried out, as soon as the database answers. */
  retract(submit: UnknownSubmit): void;
  /** Works until aborted; submits left then are not retracted. */
  run(signal: AbortSignal): Promise<void>;
}

/** A submit that was sent to the database and got no answer in time. */
export interface UnknownSubmit {
  readonly jobId: string;
  readonly accountId: string;
}

/**
 * Keeps the promise of a failed submit: nothing is billed. Nobody knows whether its transaction was or will be
 * committed. So each is looked up under the lock that submits take, and one that arrives even later is refused.
 */
export function createRetractor({ database, canceller, logger }: RetractorOptions): Retractor {
  const accounts = new Map<string, string>();
  const queue = createWorkQueue({
    name: 'retractions',
    concurrency: 4,
    logger,
    maxDelayMs: 2_000,
    async process(jobId) {
      const accountId = accounts.get(jobId) ?? '';
      const [row] = await database.sql<
        { made: boolean }[]
      >`select retract_submit(${jobId}, ${accountId}) as made`;
      if (row?.made) {
        logger.warn({ jobId, accountId }, 'cancelling a job whose submit was answered as failed');
        await canceller.cancel(accountId, jobId);
      }
      accounts.delete(jobId);
      return undefined;
    },
  });
  return {
    retract({ jobId, accountId }) {
      accounts.set(jobId, accountId);
      queue.add(jobId);
    },
    run: (signal) => queue.run(signal),
  };
}
