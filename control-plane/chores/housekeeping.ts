import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '@semblance/common/errors';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { ObjectStore } from '@semblance/objects/store';
import { noteKeyUses } from '../accounts/accounts.ts';
import { removeEndedSessions } from '../accounts/console-sessions.ts';
import { auditBooks } from '../billing/audit-books.ts';
import { createOrphans } from '../media/orphans.ts';
import type { Removals } from '../media/removals.ts';
import { createRetention } from '../media/retention.ts';
import type { Database } from '../storage/database.ts';
import type { Sql } from '../storage/sql.ts';
import type { Uploads } from '../uploads/uploads.ts';
import { runChores } from './chores.ts';

export interface HousekeepingOptions {
  readonly database: Database;
  readonly objects: ObjectStore;
  readonly uploads: Uploads;
  readonly removals: Removals;
  readonly reflector: Pick<Reflector<RenderJob>, 'list' | 'hasSynced'>;
  readonly logger: Logger;
  /** Pause between two rounds, ± 25 %. Default 60 s. */
  readonly everyMs?: number | undefined;
}

const SWEEP_MS = 60_000;
const HOUR = 3_600;

/** Removes data that nobody will ask for any more, and checks the rest. */
export async function keepHouse(options: HousekeepingOptions, signal: AbortSignal): Promise<void> {
  const { database, objects, uploads, removals, reflector, logger, everyMs = SWEEP_MS } = options;
  const keysInUse = () =>
    reflector.hasSynced
      ? reflector
          .list()
          .filter(({ status }) => status?.phase !== 'Succeeded' && status?.phase !== 'Failed')
          .flatMap(({ spec }) => spec.inputs.map(({ key }) => key))
      : undefined;
  const retention = createRetention({ database, removals, keysInUse });
  const orphans = createOrphans({
    sql: database.slow,
    objects,
    removals,
    logger,
    renderJobs: () =>
      reflector.hasSynced ? new Set(reflector.list().map(({ metadata }) => metadata.uid ?? '')) : undefined,
  });

  // None depends on another's success: one object that cannot be deleted blocks nothing else.
  const sweeps: readonly (() => Promise<unknown>)[] = [
    // Debts that are due only ahead of a clock that was set back.
    () => database.sql`select bring_forward()`,
    // Rates whose moment has come.
    () => database.sql`select start_rates()`,
    () => noteKeyUses(database.sql),
    () => removeEndedSessions(database.sql),
    () => removeOldKeys(database.sql),
    () => removeOldTraces(database.sql),
    () => removeOldRetractions(database.sql),
    () => removeOldWork(database.sql),
    () => uploads.sweep(signal),
    () => retention.sweep(signal),
  ];

  async function sweepAgainAndAgain(): Promise<void> {
    while (!signal.aborted) {
      for (const sweep of sweeps) {
        await sweep().catch((error: unknown) => {
          if (!signal.aborted) logger.warn(`housekeeping failed: ${describeError(error)}`);
        });
      }
      await delay(everyMs * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => {});
    }
  }

  const chores = [
    { name: 'orphans', everySeconds: 6 * HOUR, leaseSeconds: 2 * HOUR, work: orphans.sweep },
    {
      name: 'books',
      everySeconds: HOUR / 6,
      leaseSeconds: HOUR / 2,
      async work() {
        const { accounts, belowZero, faults } = await auditBooks(database.slow, signal);
        for (const fault of faults) logger.error(fault, 'the books of an account do not agree');
        return { accounts, below_zero: belowZero, faults: faults.length };
      },
    },
  ];
  await Promise.all([sweepAgainAndAgain(), runChores({ database, logger, chores }, signal)]);
}

/**
 * Rows that one statement deletes, oldest first: in that order an index shows at once when there are no more,
 * without reading all young rows.
 */
const BATCH = 5_000;

/** Deletes Idempotency-Keys older than the setting, which is at least a day. */
export function removeOldKeys(sql: Sql): Promise<void> {
  return untilFewer(
    () => sql`
      delete from idempotency_keys where (account_id, key) in (
        select account_id, key from idempotency_keys
        where created_at < now() - (select idempotency_seconds from settings) * interval '1 second'
        order by created_at limit ${BATCH}) returning 1`,
  );
}

/** Deletes the rows that join the parts of a trace, once they are 7 days old and nobody looks at it any more. */
export function removeOldTraces(sql: Sql): Promise<void> {
  return untilFewer(
    () => sql`
      delete from job_traces where job_id in (
        select job_id from job_traces where created_at < now() - interval '7 days'
        order by created_at limit ${BATCH}) returning 1`,
  );
}

/** A statement that was given up arrives within minutes or never. */
export function removeOldRetractions(sql: Sql): Promise<void> {
  return untilFewer(
    () => sql`
      delete from retracted_submits where job_id in (
        select job_id from retracted_submits where at < now() - interval '7 days' order by at limit ${BATCH}) returning 1`,
  );
}

/** Deletes counts of failed work that no limit looks at any more. */
export function removeOldWork(sql: Sql): Promise<void> {
  return untilFewer(
    () => sql`
      delete from failed_work where (account_id, minute) in (
        select account_id, minute from failed_work where minute < now() - interval '2 hours'
        order by minute limit ${BATCH}) returning 1`,
  );
}

/** Repeats for any number of rows. */
async function untilFewer(removed: () => Promise<readonly unknown[]>): Promise<void> {
  while ((await removed()).length >= BATCH);
}
