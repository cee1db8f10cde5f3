import { randomBytes } from 'node:crypto';
import { connectSession } from '@semblance/control-plane/sessions/connect';
import { sha256 } from '@semblance/control-plane/sessions/order';
import { createReports, type EndedFacts } from '@semblance/control-plane/sessions/reports';
import { newSessionId } from '@semblance/control-plane/sessions/session-id';
import type { Sql } from '@semblance/control-plane/storage/sql';
import type { SessionReport } from '@semblance/proto/semblance/control/v1/control';
import { type TestDatabase, testDatabase } from './storage.ts';

/** Makes sessions available, as the first live agent does. */
export async function offerSessions(sql: Sql): Promise<void> {
  await sql`select note_engines(array['voice', 'full-live-swap'])`;
}

export interface TestOpening {
  readonly capability?: string;
  readonly minutes?: number;
  readonly id?: string;
  readonly token?: string;
  /** The API key that opens it. */
  readonly keyId?: string;
}

/** Opens a session with its first block and returns the outcome. */
export async function reserveSession(sql: Sql, accountId: string, opening: TestOpening = {}) {
  const { capability = 'voice', minutes = 1, id = newSessionId(), token = id, keyId } = opening;
  const request = {
    session: id,
    account: accountId,
    capability,
    inputs: [],
    minutes,
    token_sha256: sha256(token).toString('hex'),
    ticket: randomBytes(32).toString('hex'),
    key_id: keyId ?? null,
  };
  const [row] = await sql<
    { outcome: string; max_seconds: number | null; max_cost_micros: bigint | null; detail: string | null }[]
  >`select (result).* from open_sessions(${sql.json([request])}::jsonb)`;
  if (!row) throw new Error('an opening has no outcome');
  return { id, ...row };
}

/** Records that the slot of a session is claimed. */
export async function holdSlot(sql: Sql, session: string): Promise<boolean | undefined> {
  const slot = { session, agent: 'agent-1', incarnation: 'one', address: '127.0.0.1:9' };
  const [row] = await sql<{ opened: boolean }[]>`
    select opened from sessions_opened(${sql.json([slot])}::jsonb)`;
  return row?.opened;
}

/** Opens a session that a client may connect to; its token is its id. Returns the id. */
export async function openSession(sql: Sql, accountId: string, opening: TestOpening = {}): Promise<string> {
  await offerSessions(sql);
  const { id, outcome } = await reserveSession(sql, accountId, opening);
  if (outcome !== 'reserved') throw new Error(`a session is not opened: ${outcome}`);
  await holdSlot(sql, id);
  return id;
}

/** Creates the helpers of session tests, on the given database or on a new one. */
export async function sessionRig(brought?: TestDatabase) {
  const db = brought ?? (await testDatabase());
  const { sql, database } = db;
  await offerSessions(sql);
  await sql`update settings set live_sessions = 1000, session_longest_pause_seconds = 0`;
  const ended: EndedFacts[] = [];
  const connect = (id: string, connectionId = 'one') =>
    connectSession(database, { sessionId: id, tokenSha256: sha256(id), connectionId }, async () => undefined);
  return {
    db,
    /** Settlements that the reports caused. */
    ended,
    report: createReports({ database, onEnded: (facts) => ended.push(facts) }),
    connect,
    /** Opens a session that streams. Returns the id. */
    async streaming(accountId: string, opening: TestOpening = {}) {
      const id = await openSession(sql, accountId, opening);
      await connect(id);
      return id;
    },
    async rowOf(id: string) {
      const [row] = await sql`
        select state, status, reason, streamed_ms, charged_micros, ticket is null as forgotten from sessions where id = ${id}`;
      return row;
    },
    async moneyOf(accountId: string) {
      const [row] = await sql<{ available: bigint; reserved: bigint; spent: bigint }[]>`
        select available_micros as available, reserved_micros as reserved, spent_micros as spent
        from account_balances where account_id = ${accountId}`;
      return row;
    },
  };
}

export type SessionRig = Awaited<ReturnType<typeof sessionRig>>;

/** Returns a report of the connection that the rig made. */
export const told = (id: string, streamedMs: number, more: Partial<SessionReport> = {}): SessionReport => ({
  sessionId: id,
  connectionId: 'one',
  streamedMs: BigInt(streamedMs),
  ended: false,
  reason: undefined,
  ...more,
});
