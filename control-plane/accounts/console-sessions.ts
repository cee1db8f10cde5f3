import { isIP } from 'node:net';
import { ApiError } from '@semblance/common/errors';
import { newId, newSecret } from '@semblance/common/ids';
import type { Caller, ConsoleSession } from '@semblance/proto/semblance/control/v1/control';
import type { AuditFacts } from '../audit/audit.ts';
import type { Database } from '../storage/database.ts';
import { isStorable, type Sql, SqlText, type Transaction } from '../storage/sql.ts';
import { hashKey } from './accounts.ts';

/** Time after which a session ends that nobody uses, and the longest time of one, in seconds. */
const IDLE_SECONDS = 3_600;
const LONGEST_SECONDS = 12 * 3_600;
/** Most open sessions of a key. One more ends the one that was not used for the longest time. */
export const MAX_SESSIONS = 10;
/** A use is noted when the last note is older, in seconds. */
const NOTE_SECONDS = 60;
const LONGEST_AGENT = 300;

/** Condition of a row of `console_sessions s` that is open. */
const OPEN = new SqlText(`s.expires_at > now() and s.used_at > now() - interval '${IDLE_SECONDS} seconds'`);

/**
 * Returns the keys of open sessions, by the hashes of their tokens, both SHA-256 in hex, and notes their use. Whether a key
 * is still valid is for the caller to judge.
 */
export async function keysOfSessions(
  { fast }: Pick<Database, 'fast'>,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await fast<{ token: string; key: string }[]>`
    with found as (
      select s.id, s.used_at, q.hash, encode(k.secret_sha256, 'hex') as key
      from unnest(${hashes}::text[]) as q(hash)
      join console_sessions s on s.token_sha256 = decode(q.hash, 'hex') and ${OPEN}
      join api_keys k on k.id = s.key_id
    ), noted as (
      update console_sessions set used_at = now() where id in (
        select f.id from found f where f.used_at < now() - ${NOTE_SECONDS} * interval '1 second' order by f.id)
    )
    select hash as token, key from found`;
  return new Map(rows.map(({ token, key }) => [token, key]));
}

interface Row {
  readonly id: string;
  readonly key_id: string;
  readonly created_at: Date;
  readonly used_at: Date;
  readonly ends_at: Date;
  readonly address: string | null;
  readonly agent: string | null;
  readonly current: boolean;
}

const shown = (row: Row): ConsoleSession => ({
  sessionId: row.id,
  keyId: row.key_id,
  createdAt: row.created_at.toISOString(),
  usedAt: row.used_at.toISOString(),
  expiresAt: row.ends_at.toISOString(),
  address: row.address ?? undefined,
  agent: row.agent ?? undefined,
  current: row.current,
});

async function rowsOf(sql: Transaction, accountId: string, caller: Caller | undefined): Promise<Row[]> {
  return sql<Row[]>`
    select s.id, s.key_id, s.created_at, s.used_at, host(s.address) as address, s.agent,
           least(s.expires_at, k.expires_at) as ends_at,
           coalesce(s.token_sha256 = ${caller?.sessionSha256 ?? null}::bytea, false) as current
    from console_sessions s join api_keys k on k.id = s.key_id
    where s.account_id = ${accountId} and ${OPEN}
      and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
    order by s.created_at desc, s.id desc`;
}

/** Lists the open sessions of an account, newest first. */
export async function listConsoleSessions(
  sql: Transaction,
  accountId: string,
  caller: Caller | undefined,
): Promise<ConsoleSession[]> {
  return (await rowsOf(sql, accountId, caller)).map(shown);
}

/** Where a session is opened. */
interface Place {
  readonly address: string | undefined;
  readonly agent: string | undefined;
}

/**
 * Opens a session that acts as a key. Its token is in the result alone.
 * @throws ApiError unauthorized when the key was revoked meanwhile
 */
export async function openConsoleSession(
  tx: Transaction,
  { accountId, keyId }: { readonly accountId: string; readonly keyId: string },
  { address, agent }: Place,
): Promise<{ session: ConsoleSession; token: string; audits: AuditFacts[] }> {
  // Sign-ins of one key at once wait for each other, so that they see their number.
  const [key] = await tx`select 1 from api_keys where id = ${keyId} and revoked_at is null for no key update`;
  if (!key) throw new ApiError('unauthorized', 'The API key is not known or was revoked.');
  const ended = await tx<{ id: string }[]>`
    delete from console_sessions where id in (
      select s.id from console_sessions s where s.key_id = ${keyId}
      order by ${OPEN} desc, s.used_at desc, s.id desc offset ${MAX_SESSIONS - 1}) returning id`;
  const sessionId = newId('con-');
  const token = newSecret('con_');
  const text = agent?.slice(0, LONGEST_AGENT).toWellFormed();
  await tx`
    insert into console_sessions (id, account_id, key_id, token_sha256, expires_at, address, agent)
    values (${sessionId}, ${accountId}, ${keyId}, ${hashKey(token)}, now() + ${LONGEST_SECONDS} * interval '1 second',
            ${address !== undefined && isIP(address) ? address : null}::text::inet,
            ${text !== undefined && isStorable(text) ? text : null})`;
  const session = (await listConsoleSessions(tx, accountId, undefined)).find(
    (one) => one.sessionId === sessionId,
  );
  if (!session) throw new ApiError('unauthorized', 'The API key has expired.');
  const made = { accountId, subject: sessionId, after: { open: true, address: session.address ?? null } };
  return { session, token, audits: [...ended.map(({ id }) => endOf(accountId, id)), made] };
}

/** Ends a session of an account; `current` is that of the call. @throws ApiError not_found */
export async function endConsoleSession(
  tx: Transaction,
  accountId: string,
  sessionId: string,
  caller: Caller | undefined,
): Promise<{ session: ConsoleSession; audits: AuditFacts[] }> {
  const rows = await rowsOf(tx, accountId, caller);
  const row = rows.find(({ id, current }) => (sessionId === 'current' ? current : id === sessionId));
  const [ended] = row ? await tx`delete from console_sessions where id = ${row.id} returning 1` : [];
  if (!row || !ended) throw new ApiError('not_found', 'There is no such session of the console.');
  return { session: shown(row), audits: [endOf(accountId, row.id)] };
}

const endOf = (accountId: string, subject: string): AuditFacts => ({
  accountId,
  subject,
  after: { open: false },
});

/** Deletes sessions that have ended by themselves, and those of keys that were revoked. */
export async function removeEndedSessions(sql: Sql): Promise<void> {
  await sql`
    delete from console_sessions s using api_keys k
    where k.id = s.key_id and (k.revoked_at is not null or s.expires_at <= now()
      or s.used_at <= now() - ${IDLE_SECONDS} * interval '1 second')`;
}
