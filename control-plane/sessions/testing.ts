import { randomBytes } from 'node:crypto';
import type { Sql } from '../storage/sql.ts';
import { sha256 } from './order.ts';
import { newSessionId } from './session-id.ts';

/** Offers sessions, as the first agent that does them does. */
export async function offerSessions(sql: Sql): Promise<void> {
  await sql`select note_engines(array['voice', 'full-live-swap'])`;
}

export interface TestOpening {
  readonly capability?: string;
  readonly minutes?: number;
  readonly id?: string;
  readonly token?: string;
}

/** What became of a session's opening, block and all. */
export async function reserveSession(sql: Sql, accountId: string, opening: TestOpening = {}) {
  const { capability = 'voice', minutes = 1, id = newSessionId(), token = id } = opening;
  const request = {
    ...{ session: id, account: accountId, capability, inputs: [], minutes },
    token_sha256: sha256(token).toString('hex'),
    ticket: randomBytes(32).toString('hex'),
  };
  const [row] = await sql<
    { outcome: string; max_seconds: number | null; max_cost_micros: bigint | null; detail: string | null }[]
  >`select (result).* from open_sessions(${sql.json([request])}::jsonb)`;
  if (!row) throw new Error('an opening has no outcome');
  return { id, ...row };
}

/** Says that its slot is held. */
export async function holdSlot(sql: Sql, session: string): Promise<boolean | undefined> {
  const slot = { session, agent: 'agent-1', incarnation: 'one', address: '127.0.0.1:9' };
  const [row] = await sql<{ opened: boolean }[]>`
    select opened from sessions_opened(${sql.json([slot])}::jsonb)`;
  return row?.opened;
}

/** A session that a client may connect to; its token is its id. */
export async function openSession(sql: Sql, accountId: string, opening: TestOpening = {}): Promise<string> {
  await offerSessions(sql);
  const { id, outcome } = await reserveSession(sql, accountId, opening);
  if (outcome !== 'reserved') throw new Error(`a session is not opened: ${outcome}`);
  await holdSlot(sql, id);
  return id;
}
