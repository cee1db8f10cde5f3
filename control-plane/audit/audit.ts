import { ApiError } from '@semblance/common/errors';
import { MOMENT_RULE, parseMoment } from '@semblance/common/moment';
import type { AdminIdentity } from '../admin-tokens/gate.ts';
import { timestampOf } from '../storage/moments.ts';
import { isStorable, type Transaction } from '../storage/sql.ts';

/** A change as it is recorded, never with a secret. */
export interface AuditFacts {
  readonly accountId?: string | undefined;
  /** The changed thing: an account, a key, a capability, a setting. */
  readonly subject: string;
  readonly before?: Readonly<Record<string, unknown>> | undefined;
  readonly after?: Readonly<Record<string, unknown>> | undefined;
}

/** A key of an account, with which its holder changes what is its own. */
export interface AccountKey {
  /** Id of the key. */
  readonly name: string;
  readonly role: 'account';
  readonly tokenId: undefined;
}

/** The caller, and the call. */
export interface AuditCall {
  readonly action: string;
  /** Whoever the token names. */
  readonly actor: AdminIdentity | AccountKey;
  /** Name that the caller states, not proven. */
  readonly stated: string;
  readonly requestId: string | undefined;
}

export interface AuditRow {
  readonly id: bigint;
  readonly at: Date;
  readonly actor: string;
  readonly action: string;
  readonly account_id: string | null;
  readonly subject: string;
  readonly before: unknown;
  readonly after: unknown;
  readonly request_id: string | null;
  readonly role: string;
  readonly token_id: string | null;
  readonly stated: string | null;
  readonly seq: bigint;
  readonly hash: Buffer;
}

/** Records the change in its own transaction. */
export async function writeAudit(
  tx: Transaction,
  { action, actor, stated, requestId }: AuditCall,
  { accountId, subject, before, after }: AuditFacts,
): Promise<void> {
  const text = (facts: AuditFacts['before']) => (facts === undefined ? null : tx.json(facts));
  await tx`
    insert into audit (actor, role, token_id, stated, action, account_id, subject, before, after, request_id)
    values (${actor.name}, ${actor.role}, ${actor.tokenId ?? null}, ${stated}, ${action}, ${accountId ?? null},
            ${subject}, ${text(before)}::jsonb, ${text(after)}::jsonb, ${requestId ?? null})`;
}

/** Lists the newest changes in [from, to). @throws ApiError invalid_input */
export async function listAudit(
  sql: Transaction,
  of: { accountId?: string; from?: string; to?: string; limit: number },
): Promise<AuditRow[]> {
  const { accountId = null } = of;
  if (accountId !== null && !isStorable(accountId)) return [];
  return sql<AuditRow[]>`
    select id, at, actor, role, token_id, stated, action, account_id, subject, before, after, request_id, seq, hash
    from audit
    where (${accountId}::text is null or account_id = ${accountId})
      and at >= coalesce(${momentOf('from', of.from)}::timestamptz, '-infinity')
      and at < coalesce(${momentOf('to', of.to)}::timestamptz, 'infinity')
    order by seq desc limit ${limitOf(of.limit)}`;
}

/** Lines of the chain in one answer. A line is short, but for the definition of a voice. */
const EXPORTED = 200;

export interface ExportedAudit {
  readonly lines: string[];
  readonly headSeq: bigint;
  readonly headHash: string;
}

/** Returns the next lines of the chain, and its head at that moment. */
export async function exportAudit(sql: Transaction, after: bigint): Promise<ExportedAudit> {
  const [row] = await sql<{ lines: string[]; seq: bigint; hash: string }[]>`
    select h.seq, encode(h.hash, 'hex') as hash, array(
      select left(l.line, -1) || ', "hash" : "' || encode(l.hash, 'hex') || '"}'
      from (select a.seq, a.hash, audit_line(a) as line from audit a where a.seq > ${after}
            order by a.seq limit ${EXPORTED}) l
      order by l.seq) as lines
    from audit_head h`;
  if (!row) throw new Error('the head of the audit is missing');
  return { lines: row.lines, headSeq: row.seq, headHash: row.hash };
}

/** @param limit 0: 100. @throws ApiError invalid_input above 1000 */
export function limitOf(limit: number): number {
  if (limit < 0 || limit > 1_000) throw new ApiError('invalid_input', 'A limit is from 1 to 1000.');
  return limit === 0 ? 100 : limit;
}

function momentOf(name: string, text: string | undefined): string | null {
  if (text === undefined) return null;
  const micros = parseMoment(text);
  if (micros === undefined) throw new ApiError('invalid_input', `"${name}" ${MOMENT_RULE}.`);
  return timestampOf(micros);
}
