import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { ObjectNotFoundError, type ObjectStore } from '@semblance/objects/store';
import type { Database } from '../storage/database.ts';
import { SqlText, type Transaction } from '../storage/sql.ts';

/** On whose behalf a file is deleted. */
export type Remover =
  | { readonly by: 'retention' }
  /** `actor`: the id of the key that asked. */
  | { readonly by: 'owner'; readonly actor: string }
  /** `actor`: the name that the service owner stated. */
  | { readonly by: 'admin'; readonly actor: string };

/** Objects deleted at once. */
const CONCURRENCY = 16;
const BATCH = 200;
/** Time after which a removal claimed by a dead process is free for others. */
const LEASE_SECONDS = 60;

interface Claimed {
  readonly object_key: string;
  readonly attempts: number;
}

/** Uploads that were taken out of use. */
export interface RemovedUploads {
  readonly fileKeys: string[];
  readonly objectKeys: string[];
}

const actorOf = (remover: Remover) => ('actor' in remover ? remover.actor : null);

/**
 * Takes an account's uploads out of use, except those that an unfinished job or session uses, and owes their
 * deletion. The row of balances is locked first, as in a submit: a job or session is admitted either before, and
 * its inputs stay, or after, and finds them gone.
 * @returns the keys that were taken, and all objects that go with them: the crops of faces, too
 */
export async function removeUploads(
  tx: Transaction,
  accountId: string,
  fileKeys: readonly string[],
  remover: Remover,
): Promise<RemovedUploads> {
  if (fileKeys.length === 0) return { fileKeys: [], objectKeys: [] };
  await tx`select 1 from account_balances where account_id = ${accountId} for no key update`;
  const rows = await tx<{ object_key: string; kind: string }[]>`
    with gone as (
      delete from uploads u
      where u.file_key = any(${fileKeys}::text[]) and u.account_id = ${accountId} and u.completed_at is not null
        and not exists (
          select 1 from jobs j, jsonb_each_text(j.inputs) i
          where j.account_id = u.account_id and j.settled_at is null and i.value = u.file_key)
        and not exists (
          select 1 from sessions s, jsonb_each_text(s.inputs) i
          where s.account_id = u.account_id and s.ended_at is null and i.value = u.file_key)
      returning u.file_key, u.account_id, u.size_bytes, u.sha256
    ), crops as (
      select f.crop_key, g.account_id, f.crop_bytes from faces f join gone g using (file_key)
    )
    insert into media_removals (object_key, kind, account_id, size_bytes, sha256, removed_by, actor)
    select file_key, 'upload', account_id, size_bytes, encode(sha256, 'hex'), ${remover.by}, ${actorOf(remover)} from gone
    union all
    select crop_key, 'crop', account_id, crop_bytes, null, ${remover.by}, ${actorOf(remover)} from crops
    returning object_key, kind`;
  return {
    fileKeys: rows.filter(({ kind }) => kind === 'upload').map((row) => row.object_key),
    objectKeys: rows.map((row) => row.object_key),
  };
}

/** The rest of a statement that begins with the locked rows of jobs, `picked`, with `removed_by` and `actor`. */
export const TAKE_PICKED_OUTPUTS = new SqlText(`cleared as (
    update jobs j set output_key = null, output_removed_at = now() from picked p where j.id = p.id
  ), previews as (
    delete from output_previews v using picked p where v.job_id = p.id
    returning v.object_key, v.job_id, v.size_bytes, p.account_id, p.removed_by, p.actor
  )
  insert into media_removals (object_key, kind, account_id, job_id, size_bytes, sha256, removed_by, actor)
  select output_key, 'output', account_id, id, coalesce(output_size_bytes, 0), output_sha256, removed_by, actor from picked
  union all
  select object_key, 'preview', account_id, job_id, size_bytes, null, removed_by, actor from previews
  on conflict (object_key) do nothing
  returning object_key`);

/**
 * Takes the output of an ended job out of use and owes its deletion. The job stays, without a link.
 * @returns the keys of the output and its preview; none when there is none
 */
export async function removeOutput(tx: Transaction, jobId: string, remover: Remover): Promise<string[]> {
  const rows = await tx<{ object_key: string }[]>`
    with picked as (
      select j.*, ${remover.by}::text as removed_by, ${actorOf(remover)}::text as actor from jobs j
      where id = ${jobId} and settled_at is not null and output_key is not null for no key update
    ), ${TAKE_PICKED_OUTPUTS}`;
  return rows.map((row) => row.object_key);
}

export interface RemovalsOptions {
  readonly database: Database;
  readonly objects: ObjectStore;
  readonly logger: Logger;
  /** Called for each deleted file, by kind and remover. */
  readonly onDeleted?: (deleted: { kind: string; removedBy: string; bytes: bigint }) => void;
}

/**
 * Deletes the objects in `media_removals` and writes `media_deletions`. After a crash in between the object is
 * deleted again, without effect, and the deletion is recorded once: the record is made from the row that goes.
 */
export function createRemovals({ database, objects, logger, onDeleted }: RemovalsOptions) {
  const { sql } = database;

  async function carryOut(claimed: readonly Claimed[], signal?: AbortSignal): Promise<number> {
    const waiting = [...claimed];
    const deleted: string[] = [];
    const workers = Array.from({ length: CONCURRENCY }, async () => {
      for (let next = waiting.pop(); next && !signal?.aborted; next = waiting.pop()) {
        try {
          await deleteSurely(objects, next.object_key);
          deleted.push(next.object_key);
        } catch (error) {
          await putOff(next, error);
        }
      }
    });
    await Promise.all(workers);
    if (deleted.length === 0) return 0;
    const rows = await sql<{ kind: string; removed_by: string; size_bytes: bigint }[]>`
      with paid as (delete from media_removals where object_key = any(${deleted}::text[]) returning *)
      insert into media_deletions (object_key, kind, account_id, job_id, size_bytes, sha256, removed_by, actor, removed_at)
      select object_key, kind, account_id, job_id, size_bytes, sha256, removed_by, actor, removed_at from paid
      returning kind, removed_by, size_bytes`;
    for (const { kind, removed_by: removedBy, size_bytes: bytes } of rows)
      onDeleted?.({ kind, removedBy, bytes });
    return rows.length;
  }

  /** A minute after the first failure, then twice as long each time, up to an hour. */
  async function putOff({ object_key: objectKey, attempts }: Claimed, error: unknown): Promise<void> {
    const reason = describeError(error).replaceAll('\0', '').slice(0, 500);
    logger.warn({ objectKey, attempts }, `cannot delete an object: ${reason}`);
    const seconds = Math.min(3_600, 60 * 2 ** Math.min(attempts - 1, 10));
    await sql`
      update media_removals set due_at = now() + ${seconds} * interval '1 second', last_error = ${reason}
      where object_key = ${objectKey}`.catch(() => {});
  }

  return {
    /** Deletes these now; failures stay owed. Never throws. */
    async payNow(objectKeys: readonly string[]): Promise<void> {
      if (objectKeys.length === 0) return;
      try {
        const claimed = await sql<Claimed[]>`
          update media_removals set due_at = now() + ${LEASE_SECONDS} * interval '1 second', attempts = attempts + 1
          where object_key = any(${objectKeys}::text[]) and due_at <= now() returning object_key, attempts`;
        await carryOut(claimed);
      } catch (error) {
        logger.warn(`cannot delete files, trying again later: ${describeError(error)}`);
      }
    },

    /** Deletes everything that is due. @returns number of deleted objects */
    async payDue(signal: AbortSignal): Promise<number> {
      let total = 0;
      for (;;) {
        signal.throwIfAborted();
        const claimed = await sql<Claimed[]>`
          update media_removals set due_at = now() + ${LEASE_SECONDS} * interval '1 second', attempts = attempts + 1
          where object_key in (
            select object_key from media_removals where due_at <= now() order by due_at limit ${BATCH}
            for update skip locked
          ) returning object_key, attempts`;
        if (claimed.length === 0) return total;
        total += await carryOut(claimed, signal);
      }
    },
  };
}

/** Deletes an object, and has the store confirm that it is gone: a receipt will state it. @throws the store's errors */
async function deleteSurely(objects: Pick<ObjectStore, 'delete' | 'info'>, key: string): Promise<void> {
  await objects.delete(key);
  const still = await objects.info(key).catch((error: unknown) => {
    if (error instanceof ObjectNotFoundError) return undefined;
    throw error;
  });
  if (still) throw new Error('the object store still has it after its deletion');
}

export type Removals = ReturnType<typeof createRemovals>;
