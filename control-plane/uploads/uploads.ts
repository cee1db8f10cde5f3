import { ApiError } from '@semblance/common/errors';
import { newId } from '@semblance/common/ids';
import type { Logger } from '@semblance/common/logging';
import { isObjectKey } from '@semblance/common/object-key';
import type { ObjectStore } from '@semblance/objects/store';
import { type CompleteUploadRequest, MediaKind } from '@semblance/proto/semblance/control/v1/control';
import type { Database } from '../storage/database.ts';
import { isStorable, type Transaction } from '../storage/sql.ts';
import { sweepParts } from './upload-parts.ts';

const KINDS: Partial<Record<MediaKind, string>> = {
  [MediaKind.MEDIA_KIND_IMAGE]: 'image',
  [MediaKind.MEDIA_KIND_AUDIO]: 'audio',
  [MediaKind.MEDIA_KIND_VIDEO]: 'video',
};

/** Failed deletions after which one sweep gives up. */
const MAX_FAILURES = 5;

/** Prefix of the keys of uploads; no other object has it. */
const KEY_PREFIX = 'api/up-';

/**
 * Registers an upload: every one begins here. The key is unguessable and does not reveal its owner.
 * @returns the key, for bytes that are stored under it before the upload is completed
 */
export async function reserveUpload(tx: Transaction, accountId: string): Promise<string> {
  const fileKey = newId(KEY_PREFIX);
  await tx`insert into uploads (file_key, account_id) values (${fileKey}, ${accountId})`;
  return fileKey;
}

export interface UploadsOptions {
  readonly database: Database;
  readonly objects: ObjectStore;
  readonly logger: Logger;
}

/** Manages file keys from their reservation until their bytes are usable or gone. */
export function createUploads({ database, objects, logger }: UploadsOptions) {
  const { sql } = database;

  const begin = (accountId: string): Promise<string> => sql.begin((tx) => reserveUpload(tx, accountId));

  /**
   * Makes the stored bytes usable. Completing again with the same facts gives the same answer. Bytes that come too
   * late are deleted.
   * @returns signed link to the bytes
   * @throws ApiError not_found (never reserved, given up, or reserved too long ago), invalid_input
   */
  async function complete(request: CompleteUploadRequest, requestId?: string): Promise<string> {
    const { fileKey, accountId, contentType, sizeBytes, animated, writer = null } = request;
    const kind = KINDS[request.kind];
    const sha256 = Buffer.from(request.sha256);
    if (!kind || sizeBytes < 0n || sha256.length !== 32 || !/^[\x21-\x7e]{3,128}$/.test(contentType))
      throw new ApiError('invalid_input', 'The upload is not described: kind, type, size and SHA-256.');
    requireStorable(fileKey, accountId);
    const rows = await sql<{ link_seconds: number }[]>`
        with done as (
          update uploads set completed_at = coalesce(completed_at, now()), kind = ${kind}, content_type = ${contentType},
                             size_bytes = ${sizeBytes}, sha256 = ${sha256}, animated = ${animated}
          where file_key = ${fileKey} and account_id = ${accountId} and abandoned_at is null
            and (completed_at is null or (kind = ${kind} and sha256 = ${sha256}))
            and (${writer}::bigint is null or completed_at is not null or exists (
              select 1 from resumable_uploads r where r.file_key = uploads.file_key and r.writer = ${writer}::bigint))
          returning 1
        )
        select s.link_seconds from done cross join settings s`;
    if (!rows[0]) {
      await deleteOrphan(fileKey, accountId, requestId);
      throw new ApiError('not_found', 'This upload is not under way any more: upload again.');
    }
    return objects.signGet(fileKey, { expiresInSeconds: rows[0].link_seconds, audience: 'public' });
  }

  /**
   * Gives a reservation up at once and deletes its bytes, also when it was given up before. A complete upload, or
   * another account's, is left alone.
   */
  async function abort(fileKey: string, accountId: string, requestId?: string): Promise<void> {
    requireStorable(fileKey, accountId);
    await sql`
        update uploads set abandoned_at = now()
        where file_key = ${fileKey} and account_id = ${accountId} and completed_at is null and abandoned_at is null`;
    await deleteOrphan(fileKey, accountId, requestId);
  }

  /**
   * Deletes the bytes of a key that can never become usable: it was given up, or so long ago that its row is gone
   * and no sweep will find it. A key is reserved once and its row never comes back, nor is a given-up one
   * completed; so this still holds when the bytes go.
   */
  async function deleteOrphan(fileKey: string, accountId: string, requestId?: string): Promise<void> {
    if (!fileKey.startsWith(KEY_PREFIX) || !isObjectKey(fileKey)) return;
    const [row] = await sql<{ account_id: string; abandoned: boolean }[]>`
      select account_id, abandoned_at is not null as abandoned from uploads where file_key = ${fileKey}`;
    if (row && !(row.abandoned && row.account_id === accountId)) return;
    await objects
      .delete(fileKey)
      .catch((err) => logger.warn({ err, fileKey, requestId }, 'cannot delete an upload'));
  }

  /**
   * Abandons old reservations, and ends those abandoned a while ago. Rows are claimed before their objects are
   * deleted, so no key can be completed while its bytes are deleted.
   * @returns number of deleted keys
   */
  async function sweep(signal: AbortSignal, graceSeconds = 900): Promise<number> {
    const late = await sql<{ file_key: string }[]>`
      update uploads set abandoned_at = now() where file_key in (
        select file_key from uploads
        where completed_at is null and abandoned_at is null
          and reserved_at < now() - (select upload_reservation_seconds from settings) * interval '1 second'
          and not exists (select 1 from resumable_uploads r
                          where r.file_key = uploads.file_key and r.expires_at > now())
        order by reserved_at limit 500 for update skip locked
      ) returning file_key`;
    let failures = 0;
    /** An object that cannot be deleted waits for the next sweep; after several the store has failed. */
    const erased = async (fileKey: string): Promise<boolean> => {
      signal.throwIfAborted();
      try {
        await objects.delete(fileKey);
        return true;
      } catch (err) {
        if (++failures >= MAX_FAILURES) throw err;
        logger.warn({ err, fileKey }, 'cannot delete an upload');
        return false;
      }
    };
    for (const { file_key } of late) await erased(file_key);
    await sweepParts(database, erased, graceSeconds);
    // No reservation is abandoned before it is made, so the index on the age of reservations also finds old
    // abandonments.
    const expired = await sql<{ file_key: string }[]>`
      select file_key from uploads
      where completed_at is null and abandoned_at < now() - ${graceSeconds} * interval '1 second'
        and reserved_at < now() - ${graceSeconds} * interval '1 second'
      order by reserved_at limit 500`;
    let ended = 0;
    for (const { file_key } of expired) {
      if (!(await erased(file_key))) continue;
      await sql`delete from uploads where file_key = ${file_key} and abandoned_at is not null`;
      ended++;
    }
    return ended;
  }

  return { begin, complete, abort, sweep };
}

export type Uploads = ReturnType<typeof createUploads>;

function requireStorable(...texts: string[]): void {
  if (!texts.every(isStorable)) throw new ApiError('not_found', 'There is no such upload.');
}
