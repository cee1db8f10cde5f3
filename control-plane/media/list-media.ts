import { limitOf } from '../audit/audit.ts';
import { isStorable, type Transaction } from '../storage/sql.ts';

export interface MediaRow {
  readonly object_key: string;
  readonly kind: string;
  readonly account_id: string | null;
  readonly job_id: string | null;
  readonly size_bytes: bigint;
  readonly removed_by: string;
  readonly actor: string | null;
  readonly removed_at: Date;
  /** Null while the object store has not been asked yet, or did not answer. */
  readonly deleted_at: Date | null;
}

/** Lists deleted files and those to be deleted, newest first. @throws ApiError invalid_input */
export async function listMedia(
  sql: Transaction,
  of: { accountId?: string; limit: number },
): Promise<MediaRow[]> {
  const { accountId = null } = of;
  const limit = limitOf(of.limit);
  if (accountId !== null && !isStorable(accountId)) return [];
  return sql<MediaRow[]>`
    (select object_key, kind, account_id, job_id, size_bytes, removed_by, actor, removed_at, null::timestamptz as deleted_at
     from media_removals where ${accountId}::text is null or account_id = ${accountId}
     order by removed_at desc limit ${limit})
    union all
    (select object_key, kind, account_id, job_id, size_bytes, removed_by, actor, removed_at, deleted_at
     from media_deletions where ${accountId}::text is null or account_id = ${accountId}
     order by id desc limit ${limit})
    order by removed_at desc limit ${limit}`;
}
