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
  /** Pause between two looks. Default 1 s. */
  readonly everyMs?: number | undefined;
  /** A clock that nobody sets, in milliseconds. Default: the process's. */
  readonly steady?: (() => number) | undefined;
}

/** Sessions that one statement ends at most. */
const BATCH = 200;
/** Longer than this and a pause between two answers, and reports may have had nobody to go to. */
const GAP_MS = 5_000;

/** Without a session: nothing was ended. */
type LookRow = (EndRow | { readonly session: null }) & { readonly clock_ms: number };

/**
 * Ends sessions that nobody else will: openings whose process is gone, those nobody connected to, those no gateway speaks
 * of. Any number of processes may do it. The silence of a gateway counts only for as long as this process has heard the
 * database without a gap: when everything was away for a while, gateways are given the time to report again. And so they
 * are when the database's clock was set forwards, by which nothing that was written before can be judged.
 */
export function createExpiry(options: ExpiryOptions) {
  const { database, logger, now, onEnded, everyMs = 1_000, steady = () => performance.now() } = options;
  const { sql } = database;
  const heard = createHeard(GAP_MS + everyMs, steady);
  const clock = createSteppedClock();

  /** @returns how many were ended */
  async function look(): Promise<number> {
    const at = steady();
    const sinceStep = clock.sinceStep(at);
    let rows: LookRow[];
    try {
      // The clock is held against what it can show in the statement that judges by it: a step has no moment between.
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
          if (!signal.aborted) logger.warn(`cannot look for sessions to end: ${describeError(error)}`);
          return 0;
        });
        if (ended < BATCH) await delay(everyMs, undefined, { signal }).catch(() => {});
      }
    },
  };
}
