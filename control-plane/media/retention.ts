import type { Database } from '../storage/database.ts';
import { type Removals, removeUploads, TAKE_PICKED_OUTPUTS } from './removals.ts';

const BATCH = 500;

export interface RetentionOptions {
  readonly database: Database;
  readonly removals: Removals;
  /**
   * Inputs of unfinished RenderJobs, including those that people made. Undefined while they are unknown; then no
   * upload is taken out of use.
   */
  readonly keysInUse: () => readonly string[] | undefined;
}

/**
 * Takes files out of use whose retention is over, and deletes them. Any number of processes may run it at once, and
 * any may die at any point: files out of use are in `media_removals` until they are deleted.
 */
export function createRetention({ database, removals, keysInUse }: RetentionOptions) {
  const { sql } = database;

  /**
   * Retention of an upload counts from its completion; one that an unfinished job or session uses stays until that
   * has ended.
   */
  async function expireUploads(): Promise<number> {
    const inUse = keysInUse();
    if (!inUse) return 0;
    const due = await sql<{ account_id: string; file_keys: string[] }[]>`
      select d.account_id, array_agg(d.file_key) as file_keys from (
        select u.account_id, u.file_key from uploads u
        where u.completed_at < now() - (select upload_retention_seconds from settings) * interval '1 second'
          and u.file_key <> all(${inUse}::text[])
          and not exists (
            select 1 from jobs j, jsonb_each_text(j.inputs) i
            where j.account_id = u.account_id and j.settled_at is null and i.value = u.file_key)
          and not exists (
            select 1 from sessions s, jsonb_each_text(s.inputs) i
            where s.account_id = u.account_id and s.ended_at is null and i.value = u.file_key)
        order by u.completed_at limit ${BATCH}
      ) d group by d.account_id`;
    let removed = 0;
    for (const { account_id: accountId, file_keys: fileKeys } of due) {
      const gone = await sql.begin((tx) => removeUploads(tx, accountId, fileKeys, { by: 'retention' }));
      removed += gone.fileKeys.length;
    }
    return removed;
  }

  /** Retention of an output counts from the end of its job, whatever became of its webhook. */
  async function expireOutputs(): Promise<number> {
    const rows = await sql`
      with picked as (
        select j.*, 'retention' as removed_by, null::text as actor from jobs j
        where j.output_key is not null
          and j.settled_at < now() - (select output_retention_seconds from settings) * interval '1 second'
        order by j.settled_at limit ${BATCH} for no key update skip locked
      ), ${TAKE_PICKED_OUTPUTS}`;
    return rows.length;
  }

  /** Outputs whose submit asked for an earlier end. */
  async function expireEarlyOutputs(): Promise<number> {
    const rows = await sql`
      with picked as (
        select j.*, 'retention' as removed_by, null::text as actor from jobs j
        where j.output_key is not null and j.output_expires_at <= now()
        order by j.output_expires_at limit ${BATCH} for no key update skip locked
      ), ${TAKE_PICKED_OUTPUTS}`;
    return rows.length;
  }

  return {
    /** @returns number of deleted objects */
    async sweep(signal: AbortSignal): Promise<number> {
      for (const expire of [expireUploads, expireOutputs, expireEarlyOutputs]) {
        while ((await expire()) >= BATCH) signal.throwIfAborted();
      }
      return removals.payDue(signal);
    },
  };
}
