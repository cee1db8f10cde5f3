import { END_REASONS, type SessionEndReason } from '@semblance/common/live-session';
import type { SessionReport, SessionVerdict } from '@semblance/proto/semblance/control/v1/control';
import type { Database } from '../storage/database.ts';
import { isStorable } from '../storage/sql.ts';
import { isSessionId } from './session-id.ts';

/** The result of an ended session. */
export interface EndedFacts {
  readonly sessionId: string;
  readonly capability: string;
  readonly status: string;
  readonly reason: string | undefined;
  readonly streamedMs: bigint;
  readonly chargedMicros: bigint;
}

/** Columns of `end_outcome`. */
export interface EndRow {
  readonly session: string;
  readonly outcome: string | null;
  readonly capability: string | null;
  readonly status: string | null;
  readonly reason: string | null;
  readonly streamed_ms: bigint | null;
  readonly charged_micros: bigint | null;
}

/** Returns the facts of a session that this call settled; undefined: it did not. */
export function endedBy(row: EndRow): EndedFacts | undefined {
  if (row.outcome !== 'settled') return undefined;
  return {
    sessionId: row.session,
    capability: row.capability ?? 'unknown',
    status: row.status ?? 'failed',
    reason: row.reason ?? undefined,
    streamedMs: row.streamed_ms ?? 0n,
    chargedMicros: row.charged_micros ?? 0n,
  };
}

/** Returns true for text that may name a connection. */
export function isConnectionId(text: string): boolean {
  return text.length > 0 && text.length <= 128 && isStorable(text);
}

export function isEndReason(text: string | undefined): text is SessionEndReason {
  return END_REASONS.some((reason) => reason === text);
}

export interface ReportsOptions {
  readonly database: Database;
  /** Date of charges. Default: the database's clock. */
  readonly now?: (() => Date) | undefined;
  readonly onEnded?: (facts: EndedFacts) => void;
}

/** Stores the reports of gateways about their sessions, all of a message in one transaction. */
export function createReports({ database: { sql }, now, onEnded }: ReportsOptions) {
  return async function report(reports: readonly SessionReport[]): Promise<SessionVerdict[]> {
    if (reports.length === 0) return [];
    // An invalid id takes no place in the statement, and its session is over.
    const rows = await sql<(EndRow & { is_over: boolean; over_reason: string | null })[]>`
      select r.session, r.is_over, r.over_reason, (r.result).* from report_sessions(
        ${sql.json(reports.map(asStored))}::jsonb, ${now?.().toISOString() ?? null}::timestamptz) r order by r.place`;
    for (const row of rows) {
      const facts = endedBy(row);
      if (facts) onEnded?.(facts);
    }
    return rows.map((row) => ({ over: row.is_over, reason: row.over_reason ?? undefined }));
  };
}

export type Reports = ReturnType<typeof createReports>;

function asStored({ sessionId, connectionId, streamedMs, ended, reason }: SessionReport) {
  return {
    session: isSessionId(sessionId) ? sessionId : null,
    connection: isConnectionId(connectionId) ? connectionId : null,
    streamed_ms: streamedMs.toString(),
    ended,
    reason: isEndReason(reason) ? reason : null,
  };
}
