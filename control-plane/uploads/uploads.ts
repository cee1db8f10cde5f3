import { ApiError } from '@semblance/common/errors';
import { newId } from '@semblance/common/ids';
import type { Logger } from '@semblance/common/logging';
import { isObjectKey } from '@semblance/common/object-key';
import type { ObjectStore } from '@semblance/objects/store';
import { type CompleteUploadRequest, MediaKind } from '@semblance/proto/semblance/control/v1/control';
import type { Database } from '../storage/database.ts';
import { isStorable, type Statements } from '../storage/sql.ts';
import { refusalOf, UNKNOWN_BYTES, type UploadOutcome } from './upload-limits.ts';
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

/** What is known of the size of a file that is to come, in bytes. */
export interface FileSize {
  readonly leastBytes?: bigint | undefined;
  /** Bytes to set room aside for. */
  readonly reserveBytes?: bigint | undefined;
}

/**
 * Registers an upload: every one begins here. Reserves a key that is unguessable and does not reveal its owner, and room
 * for the file.
 * @returns the key, for bytes that are stored under it before the upload is completed, and the bytes that room was set
 * aside for
 * @throws ApiError at_capacity, invalid_input
 */
export async function reserveUpload(
  sql: Statements,
  accountId: string,
  { leastBytes = 0n, reserveBytes = UNKNOWN_BYTES }: FileSize = {},
): Promise<{ fileKey: string; reservedBytes: bigint }> {
  if (leastBytes < 0n || reserveBytes < leastBytes)
    throw new ApiError('invalid_input', 'The size of the upload is not described.');
  const fileKey = newId(KEY_PREFIX);
  const [row] = await sql<UploadOutcome[]>`
    select * from begin_upload(${fileKey}, ${accountId}, ${leastBytes}, ${reserveBytes})`;
  if (row?.outcome !== 'begun' || row.reserved_bytes === null) throw refusalOf(row);
  return { fileKey, reservedBytes: row.reserved_bytes };
}

export interface UploadsOptions {
  readonly database: Database;
  readonly objects: ObjectStore;
  readonly logger: Logger;
}

/** Manages file keys from their reservation until their bytes are usable or gone. */
export function createUploads({ database, objects, logger }: UploadsOptions) {
  const { sql } = database;

  const begin = (accountId: string, size?: FileSize) => reserveUpload(sql, accountId, size);

  /**
   * Sets more room aside for an upload under way, as much as there is.
   * @returns all bytes that room is set aside for
   * @throws ApiError at_capacity when there is none, not_found, invalid_input
   */
  async function extend(fileKey: string, accountId: string, moreBytes: bigint): Promise<bigint> {
    if (moreBytes < 1n) throw new ApiError('invalid_input', 'An upload is extended by at least one byte.');
    requireStorable(fileKey, accountId);
    const [row] = await sql<UploadOutcome[]>`
      select * from extend_upload(${fileKey}, ${accountId}, ${moreBytes})`;
    if (row?.outcome === 'unknown') throw notUnderWay();
    if (row?.outcome !== 'extended' || row.reserved_bytes === null) throw refusalOf(row);
    return row.reserved_bytes;
  }

  /**
   * Makes the stored bytes usable. Completing again with the same facts gives the same answer. Bytes that come too
   * late are deleted.
   * @returns signed link to the bytes
   * @throws ApiError not_found (never reserved, given up, or reserved too long ago), invalid_input, at_capacity
   */
  async function complete(request: CompleteUploadRequest, requestId?: string): Promise<string> {
    const { fileKey, accountId, keyId, contentType, sizeBytes, animated, writer = null } = request;
    const kind = KINDS[request.kind];
    const sha256 = Buffer.from(request.sha256);
    if (!kind || sizeBytes < 0n || sha256.length !== 32 || !/^[\x21-\x7e]{3,128}$/.test(contentType))
      throw new ApiError('invalid_input', 'The upload is not described: kind, type, size and SHA-256.');
    requireStorable(fileKey, accountId);
    const [row] = await sql<UploadOutcome[]>`
      select * from complete_upload(${fileKey}, ${accountId}, ${kind}, ${contentType}, ${sizeBytes}, ${sha256},
                                    ${animated}, ${writer}::bigint)`;
    if (row?.outcome === 'complete' && row.link_seconds !== null)
      return objects.signGet(fileKey, {
        expiresInSeconds: row.link_seconds,
        audience: 'public',
        // A gateway of the release before names no key.
        ...(keyId !== undefined && { keyId }),
      });
    if (row?.outcome === 'unknown') {
      await deleteOrphan(fileKey, accountId, requestId);
      throw notUnderWay();
    }
    throw refusalOf(row);
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

  return { begin, extend, complete, abort, sweep };
}

export type Uploads = ReturnType<typeof createUploads>;

function notUnderWay(): ApiError {
  return new ApiError('not_found', 'This upload is not under way any more: upload again.');
}

function requireStorable(...texts: string[]): void {
  if (!texts.every(isStorable)) throw new ApiError('not_found', 'There is no such upload.');
}
