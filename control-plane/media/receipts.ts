import { ApiError } from '@semblance/common/errors';
import type {
  ListReceiptsRequest,
  ListReceiptsResponse,
  Receipt,
} from '@semblance/proto/semblance/control/v1/control';
import { CompactSign, importJWK } from 'jose';
import { isJobId } from '../jobs/job-row.ts';
import { isStorable, type Sql } from '../storage/sql.ts';
import { RECEIPT_ALGORITHM, signingKey } from './receipt-keys.ts';
import { RECEIPT_TYPE, type Statement } from './verify-receipt.ts';

const MAX_PAGE = 200;

interface DeletionRow {
  readonly id: bigint;
  readonly object_key: string;
  readonly kind: Statement['kind'];
  readonly job_id: string | null;
  readonly size_bytes: bigint;
  readonly sha256: string | null;
  readonly removed_by: Statement['requested_by'];
  readonly removed_at: Date;
  readonly deleted_at: Date;
}

type Asked = Omit<ListReceiptsRequest, 'caller'>;

/**
 * Lists signed statements of an account's deleted files, newest first. A statement is made of the record of a deletion,
 * which never changes, so asking again gives the same statement.
 * @throws ApiError not_found, invalid_input
 */
export async function listReceipts(sql: Sql, accountId: string, asked: Asked): Promise<ListReceiptsResponse> {
  const { limit, cursor, jobId = null } = asked;
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_PAGE)
    throw new ApiError('invalid_input', `\`limit\` is a whole number from 1 to ${MAX_PAGE}.`);
  const before = cursor === undefined ? null : placeIn(cursor);
  const keys = await keysOf(sql, accountId, asked);
  const rows = await sql<DeletionRow[]>`
    select id, object_key, kind, job_id, size_bytes, sha256, removed_by, removed_at, deleted_at from media_deletions
    where account_id = ${accountId} and (${before}::bigint is null or id < ${before})
      and (${keys}::text[] is null or object_key = any(${keys}::text[]) or job_id = ${jobId})
    order by id desc limit ${limit + 1}`;
  const [owed] = await sql<{ pending: number }[]>`
    select count(*)::int as pending from media_removals
    where account_id = ${accountId} and (${keys}::text[] is null or object_key = any(${keys}::text[]) or job_id = ${jobId})`;
  const [installation] = await sql<{ id: string }[]>`select id::text from installation`;
  if (!installation) throw new Error('this installation has no name');
  const sign = await signer(sql);
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  return {
    receipts: await Promise.all(
      page.map((row) => sign({ ...statementOf(row), account_id: accountId, service: installation.id })),
    ),
    pending: owed?.pending ?? 0,
    nextCursor: last && Buffer.from(String(last.id)).toString('base64url'),
  };
}

/** Returns the keys of the files asked for; null: all. @throws ApiError not_found */
async function keysOf(sql: Sql, accountId: string, { jobId, fileKey }: Asked): Promise<string[] | null> {
  if (jobId === undefined) return fileKey === undefined ? null : isStorable(fileKey) ? [fileKey] : [];
  const [job] = isJobId(jobId)
    ? await sql<{ inputs: Record<string, string> }[]>`
        select inputs from jobs where id = ${jobId} and account_id = ${accountId}`
    : [];
  if (!job) throw new ApiError('not_found', 'There is no such job.');
  return Object.values(job.inputs);
}

function statementOf(row: DeletionRow): Omit<Statement, 'account_id' | 'service'> {
  return {
    statement: 'deleted',
    kind: row.kind,
    object_key: row.object_key,
    job_id: row.job_id,
    size_bytes: Number(row.size_bytes),
    sha256: row.sha256,
    requested_by: row.removed_by,
    removed_at: row.removed_at.toISOString(),
    deleted_at: row.deleted_at.toISOString(),
  };
}

async function signer(sql: Sql): Promise<(statement: Statement) => Promise<Receipt>> {
  const key = await signingKey(sql);
  const secret = await importJWK(key.private_key, RECEIPT_ALGORITHM);
  const header = { alg: RECEIPT_ALGORITHM, kid: key.id, typ: RECEIPT_TYPE };
  return async (statement) => {
    const statementJson = JSON.stringify(statement);
    const jws = await new CompactSign(Buffer.from(statementJson)).setProtectedHeader(header).sign(secret);
    return { jws, statementJson };
  };
}

/** @throws ApiError invalid_input */
function placeIn(cursor: string): bigint {
  const text = Buffer.from(cursor, 'base64url').toString('latin1');
  if (!/^[1-9]\d{0,17}$/.test(text))
    throw new ApiError('invalid_input', '`cursor` must be the `next_cursor` of an earlier answer.');
  return BigInt(text);
}
