import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import type { Database } from '../storage/database.ts';

const RETRY_SECONDS = 60;
/** Added to the longest pause, because a statement's time may be read by one that began earlier. */
const SLACK_SECONDS = 60;

export interface Chore {
  readonly name: string;
  /** Pause from the end of one run to the beginning of the next, in any process. */
  readonly everySeconds: number;
  /** Longest time of one run; after it another process may begin. */
  readonly leaseSeconds: number;
  /** Its return value is stored as the chore's result. */
  readonly work: (signal: AbortSignal) => Promise<Readonly<Record<string, unknown>>>;
}

export interface ChoresOptions {
  readonly database: Database;
  readonly logger: Logger;
  readonly chores: readonly Chore[];
  /** Interval at which a process checks whether one is due. Default 30 s. */
  readonly lookEveryMs?: number;
}

/**
 * Runs periodic chores, once for all processes. A process claims a chore by moving its due time, so another one
 * takes over when the lease of a dead process has expired. A chore that is due further ahead than its lease or any
 * pause allows was claimed or put off before the database's clock was set back, and is due now; two processes at
 * once do no harm.
 */
export async function runChores(options: ChoresOptions, signal: AbortSignal): Promise<void> {
  const { database, logger, chores, lookEveryMs = 30_000 } = options;
  const { sql } = database;

  async function attend({ name, everySeconds, leaseSeconds, work }: Chore): Promise<void> {
    const furthest = Math.max(everySeconds, leaseSeconds, RETRY_SECONDS) + SLACK_SECONDS;
    const [claimed] = await sql`
      insert into chores as c (name, due_at) values (${name}, now() + ${leaseSeconds} * interval '1 second')
      on conflict (name) do update set due_at = excluded.due_at
        where c.due_at <= now() or c.due_at > now() + ${furthest} * interval '1 second'
      returning name`;
    if (!claimed) return;
    let result: Readonly<Record<string, unknown>>;
    try {
      result = await work(signal);
    } catch (error) {
      // It is soon due again for any process; the work of a dead process waits for its lease.
      await sql`update chores set due_at = now() + ${RETRY_SECONDS} * interval '1 second' where name = ${name}`;
      throw error;
    }
    await sql`
      update chores set due_at = now() + ${everySeconds} * interval '1 second', finished_at = now(),
                        result = ${sql.json(result)}::jsonb
      where name = ${name}`;
  }

  async function attendAgainAndAgain(chore: Chore): Promise<void> {
    while (!signal.aborted) {
      await attend(chore).catch((error: unknown) => {
        if (!signal.aborted) logger.warn({ chore: chore.name }, `a chore failed: ${describeError(error)}`);
      });
      await delay(lookEveryMs * (0.75 + Math.random() / 2), undefined, { signal }).catch(() => {});
    }
  }

  // A chore that takes hours does not delay the others.
  await Promise.all(chores.map(attendAgainAndAgain));
}
