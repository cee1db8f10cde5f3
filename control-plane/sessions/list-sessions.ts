import { ApiError } from '@semblance/common/errors';
import { requireAccount } from '../accounts/accounts.ts';
import type { Transaction } from '../storage/sql.ts';
import { isSessionId } from './session-id.ts';

export interface SessionRow {
  readonly id: string;
  readonly account_id: string;
  readonly capability: string;
  readonly state: string;
  /** As in usage entries. */
  readonly status: string;
  readonly agent: string | null;
  readonly asked_at: Date;
  readonly ended_at: Date | null;
  readonly max_seconds: number;
  readonly max_cost_micros: bigint;
  readonly streamed_ms: bigint;
  readonly charged_micros: bigint | null;
  readonly reason: string | null;
}

export interface SessionFilter {
  readonly accountId: string;
  /** Only sessions that have not ended. */
  readonly open: boolean;
  /** Default and most: 500. */
  readonly limit?: number;
  /** Only sessions opened before the one with this id. */
  readonly before?: string | undefined;
}

/** Lists sessions of an account, newest first, without refused openings. @throws ApiError not_found */
export async function listSessions(
  sql: Transaction,
  { accountId, open, limit = 500, before }: SessionFilter,
): Promise<SessionRow[]> {
  await requireAccount(sql, accountId);
  return sql<SessionRow[]>`
    select id, account_id, capability, state, status, agent, asked_at, ended_at, max_seconds, max_cost_micros,
           streamed_ms, charged_micros, reason
    from sessions
    where account_id = ${accountId} and state <> 'refused' and (ended_at is null or not ${open}::boolean)
      and (${before ?? null}::text is null or id < ${before ?? null})
    order by id desc limit ${limit}`;
}

/**
 * Records that the account's own session is to end. Repeating it, or ending one that has ended, changes nothing.
 * @returns the session as it stands, and whether there is something to end
 * @throws ApiError not_found
 */
export async function requestOwnEnd(
  sql: Transaction,
  { accountId, sessionId }: { readonly accountId: string; readonly sessionId: string },
): Promise<{ readonly session: SessionRow; readonly ends: boolean }> {
  const [session] = isSessionId(sessionId)
    ? await sql<SessionRow[]>`
        update sessions
        set end_requested_at = case when ended_at is null then coalesce(end_requested_at, now()) else end_requested_at end
        where id = ${sessionId} and account_id = ${accountId} and state <> 'refused' returning *`
    : [];
  if (!session) throw new ApiError('not_found', 'There is no such session.');
  return { session, ends: session.ended_at === null };
}

/**
 * Records that a session is to end; the deletion of its LiveSession ends it. Repeating it changes nothing.
 * @throws ApiError not_found; invalid_input when it has ended
 */
export async function requestEnd(tx: Transaction, sessionId: string): Promise<SessionRow> {
  const [row] = isSessionId(sessionId)
    ? await tx<SessionRow[]>`select * from sessions where id = ${sessionId} for no key update`
    : [];
  if (!row || row.state === 'refused')
    throw new ApiError('not_found', `There is no session ${JSON.stringify(sessionId.slice(0, 80))}.`);
  if (row.ended_at) throw new ApiError('invalid_input', 'The session has ended.');
  await tx`update sessions set end_requested_at = coalesce(end_requested_at, now()) where id = ${sessionId}`;
  return row;
}
