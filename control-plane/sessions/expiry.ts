import { setTimeout as delay } from 'node:timers/promises';
import { describeError } from '#common/errors.ts';
import type { Logger } from '#common/logging.ts';
import type { Database } from '../storage/database.ts';
import { type EndedFacts, type EndRow, endedBy } from './reports.ts';

export interface ExpiryOptions {
  readonly database: Database;
  readonly logger: Logger;
  readonly now?: (() => Date) | undefined;
  readonly onEnded?: (facts: EndedFacts) => void;
  /** Pause between two looks. Default 1 s. */
  readonly everyMs?: number | undefined;
}

/** Sessions that one statement ends at most. */
const BATCH = 200;
/** Longer than this between two looks, and reports may have had nobody to go to. */
const GAP_MS = 5_000;

/**
 * Ends sessions that nobody else will: openings whose process is gone, those nobody connected to, those no gateway speaks
 * of. Any number of processes may do it. The silence of a gateway counts only for as long as this process has heard the
 * database without a gap: when everything was away for a while, gateways are given the time to report again.
 */
export function createExpiry({ database: { sql }, logger, now, onEnded, everyMs = 1_000 }: ExpiryOptions) {
  let heardSince: number | undefined;
  let lastLook = 0;

  /** @returns how many were ended */
  async function look(): Promise<number> {
    const at = performance.now();
    if (heardSince === undefined || at - lastLook > GAP_MS + everyMs) heardSince = at;
    try {
      const rows = await sql<EndRow[]>`
        select e.session, (e.result).* from expire_sessions(
          ${(at - heardSince) / 1000}, ${now?.().toISOString() ?? null}::timestamptz) e`;
      lastLook = performance.now();
      for (const row of rows) {
        const facts = endedBy(row);
        if (facts) {
          onEnded?.(facts);
          const { sessionId, reason } = facts;
          logger.info({ sessionId, reason }, 'a session that nobody ended is settled as it stands');
        } else logger.warn({ sessionId: row.session }, 'an opening that nobody finished is given up');
      }
      return rows.length;
    } catch (error) {
      heardSince = undefined;
      throw error;
    }
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
