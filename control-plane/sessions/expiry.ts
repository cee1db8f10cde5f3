import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import type { Database } from '../storage/database.ts';
import { createHeard } from './heard.ts';
import { type EndedFacts, type EndRow, endedBy } from './reports.ts';
import { createSteppedClock } from './stepped-clock.ts';

export interface ExpiryOptions {
  readonly database: Database;
  readonly logger: Logger;
  readonly now?: (() => Date) | undefined;
  readonly onEnded?: (facts: EndedFacts) => void;
  /** Pause between two scans. Default 1 s. */
  readonly everyMs?: number | undefined;
  /** A monotonic clock, in ms. Default: the process's. */
  readonly steady?: (() => number) | undefined;
}

/** Most sessions that one statement ends. */
const BATCH = 200;
/** Pause between two answers above which reports may have failed, in ms. */
const GAP_MS = 5_000;

/** Without a session: nothing was ended. */
type LookRow = (EndRow | { readonly session: null }) & { readonly clock_ms: number };

/**
 * Ends sessions that nobody else will end: openings of dead processes, sessions without a connection, sessions
 * without reports. Any number of processes may run it. The silence of a gateway counts only while this process has
 * heard the database without a gap: after an outage gateways get the time to report again. The same holds after the
 * database's clock was set forwards, because earlier times can then not be judged.
 */
export function createExpiry(options: ExpiryOptions) {
  const { database, logger, now, onEnded, everyMs = 1_000, steady = () => performance.now() } = options;
  const { sql } = database;
  const heard = createHeard(GAP_MS + everyMs, steady);
  const clock = createSteppedClock();

  /** @returns number of ended sessions */
  async function look(): Promise<number> {
    const at = steady();
    const sinceStep = clock.sinceStep(at);
    let rows: LookRow[];
    try {
      // The clock is compared in the statement that judges by it, so that it cannot be set in between.
      rows = await sql<LookRow[]>`
        select (extract(epoch from now()) * 1000)::float8 as clock_ms, e.session, (e.result).*
        from (select) once left join expire_sessions(
          ${(at - (heard.since() ?? at)) / 1000}, ${now?.().toISOString() ?? null}::timestamptz,
          to_timestamp(${clock.latest(at) ?? null}::float8 / 1000),
          ${sinceStep === undefined ? null : sinceStep / 1000}) e on true`;
    } catch (error) {
      heard.beginAnew();
      throw error;
    }
    const [first] = rows;
    if (first && clock.read(first.clock_ms, at, steady())) {
      heard.beginAnew();
      logger.warn('the clock of the database was set forwards: sessions get their time again');
    }
    heard.answered();
    const ended = rows.filter((row) => row.session !== null);
    for (const row of ended) {
      const facts = endedBy(row);
      if (facts) {
        onEnded?.(facts);
        const { sessionId, reason } = facts;
        logger.info({ sessionId, reason }, 'settled a session that its gateway stopped reporting');
      } else logger.warn({ sessionId: row.session }, 'refused a session whose opening was never finished');
    }
    return ended.length;
  }

  return {
    look,
    /** Works until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        const ended = await look().catch((error: unknown) => {
          if (!signal.aborted) logger.warn(`cannot find sessions to end: ${describeError(error)}`);
          return 0;
        });
        if (ended < BATCH) await delay(everyMs, undefined, { signal }).catch(() => {});
      }
    },
  };
}
