import { ApiError } from '@semblance/common/errors';
import { isObjectKey } from '@semblance/common/object-key';
import type { ObjectStore } from '@semblance/objects/store';
import type {
  BeginResumableUploadRequest,
  ListUploadPartsResponse,
  RecordUploadPartRequest,
  ResumableUpload,
  TakeResumableUploadRequest,
} from '@semblance/proto/semblance/control/v1/control';
import type { Admission } from '../accounts/gate.ts';
import type { Database } from '../storage/database.ts';
import { isStorable, type Transaction } from '../storage/sql.ts';
import { refusalOf, UNKNOWN_BYTES, type UploadOutcome } from './upload-limits.ts';
import { reserveUpload } from './uploads.ts';

/** Prefix of the keys of parts; no other object has it. */
export const PARTS_PREFIX = 'parts/';
/** Most parts of an upload. A gateway stores one every few seconds, so this is above what any line needs. */
const MAX_PARTS = 10_000;

type Caller = Pick<Admission, 'accountId' | 'keyId'>;

interface Row {
  readonly file_key: string;
  readonly account_id: string;
  readonly declared_type: string | null;
  readonly filename: string;
  readonly length: bigint | null;
  readonly max_bytes: bigint;
  readonly stored_bytes: bigint;
  readonly writer: bigint;
  readonly lives: number;
  readonly link_seconds: number;
  readonly completed: boolean;
}

export interface ResumableUploadsOptions {
  readonly database: Pick<Database, 'sql'>;
  readonly objects: Pick<ObjectStore, 'signGet'>;
}

/**
 * Keeps the state of uploads that go on after a break. Whoever reads the state takes the upload: its number is the
 * fence for all that record later, so an offset that was told cannot move under a client, whichever gateway has the
 * older request.
 */
export function createResumableUploads({ database, objects }: ResumableUploadsOptions) {
  const { sql } = database;

  async function shown(row: Row, keyId: string): Promise<ResumableUpload> {
    const link = { expiresInSeconds: row.link_seconds, audience: 'public', keyId } as const;
    return {
      keyId,
      fileKey: row.file_key,
      accountId: row.account_id,
      declaredType: row.declared_type ?? undefined,
      filename: row.filename,
      length: row.length ?? undefined,
      maxBytes: row.max_bytes,
      storedBytes: row.stored_bytes,
      writer: row.writer,
      expiresInSeconds: BigInt(row.lives),
      url: row.completed ? await objects.signGet(row.file_key, link) : undefined,
    };
  }

  /** @throws ApiError at_capacity when the account has as many as it may, or no room for it; input_too_large */
  async function begin(
    { accountId, keyId }: Caller,
    { declaredType, filename, length, maxBytes }: BeginResumableUploadRequest,
  ): Promise<ResumableUpload> {
    if (maxBytes < 1n || (length !== undefined && length < 0n))
      throw new ApiError('invalid_input', 'The upload has no usable length.');
    if (length !== undefined && length > maxBytes)
      throw new ApiError('input_too_large', `A file may have at most ${maxBytes >> 20n} MiB.`);
    const storable = (text: string) => (isStorable(text) ? text : '');
    const row = await sql.begin(async (tx) => {
      // One after the other for an account, so that two do not both find room.
      await tx`select pg_advisory_xact_lock(hashtextextended(${`resumable uploads of ${accountId}`}, 0))`;
      const [room] = await tx<{ most: number; has: number }[]>`
        select s.max_resumable_uploads as most, (
          select count(*)::int from resumable_uploads r join uploads u using (file_key)
          where u.account_id = ${accountId} and u.completed_at is null and u.abandoned_at is null
            and r.expires_at > now()) as has
        from settings s`;
      if (!room || room.has >= room.most)
        throw new ApiError(
          'at_capacity',
          `This account may have ${room?.most ?? 0} unfinished resumable uploads. Complete or cancel one.`,
        );
      const size = length === undefined ? {} : { leastBytes: length, reserveBytes: length };
      const { fileKey } = await reserveUpload(tx, accountId, size);
      const [made] = await tx<Row[]>`
        insert into resumable_uploads (file_key, declared_type, filename, length, max_bytes, writer, expires_at)
        select ${fileKey}, ${declaredType === undefined ? null : storable(declaredType)}, ${storable(filename)},
               ${length ?? null}, ${maxBytes}, 1, now() + s.resumable_upload_seconds * interval '1 second'
        from settings s
        returning file_key, ${accountId} as account_id, declared_type, filename, length, max_bytes, stored_bytes, writer,
                  (select resumable_upload_seconds from settings) as lives,
                  (select link_seconds from settings) as link_seconds, false as completed`;
      if (!made) throw new Error('a resumable upload was not stored');
      return made;
    });
    return shown(row, keyId);
  }

  /**
   * Makes a request the one that may continue.
   * @throws ApiError not_found (never begun, over, or another account's), invalid_input (another length than before,
   * or than fits)
   */
  async function take(
    { accountId, keyId }: Caller,
    { fileKey, length }: TakeResumableUploadRequest,
  ): Promise<ResumableUpload> {
    if (!isStorable(fileKey)) throw unknown();
    const [row] = await sql<Row[]>`
      update resumable_uploads r set
        writer = r.writer + 1,
        length = case when u.completed_at is null and ${length ?? null}::bigint between r.stored_bytes and r.max_bytes
                      then coalesce(r.length, ${length ?? null}::bigint) else r.length end,
        expires_at = now() + s.resumable_upload_seconds * interval '1 second'
      from uploads u, settings s
      where r.file_key = ${fileKey} and u.file_key = r.file_key and u.account_id = ${accountId}
        and u.abandoned_at is null and (u.completed_at is not null or r.expires_at > now())
      returning r.file_key, u.account_id, r.declared_type, r.filename, r.length, r.max_bytes, r.stored_bytes, r.writer,
                s.resumable_upload_seconds as lives, s.link_seconds, u.completed_at is not null as completed`;
    if (!row) throw unknown();
    if (length !== undefined && row.length !== length)
      throw new ApiError(
        'invalid_input',
        `The upload cannot have ${length} bytes: ${row.length === null ? 'it has more already, or may have fewer' : `${row.length} were stated before`}.`,
      );
    return shown(row, keyId);
  }

  /**
   * @throws ApiError not_found when the request may not record any more; invalid_input for bytes over a limit;
   * at_capacity when the account has no room for them
   */
  async function record(request: RecordUploadPartRequest): Promise<void> {
    const { fileKey, accountId, writer, objectKey, start, sizeBytes, maxBytes } = request;
    if (
      !isStorable(fileKey) ||
      !isObjectKey(objectKey) ||
      !objectKey.startsWith(PARTS_PREFIX) ||
      sizeBytes < 1n
    )
      throw new ApiError('invalid_input', 'This is no part of an upload.');
    await sql.begin(async (tx) => {
      const [row] = await tx<{ lacks: bigint }[]>`
        with taken as (
          update resumable_uploads r set
            stored_bytes = r.stored_bytes + ${sizeBytes}, parts = r.parts + 1,
            max_bytes = least(r.max_bytes, ${maxBytes ?? null}::bigint),
            expires_at = now() + s.resumable_upload_seconds * interval '1 second'
          from uploads u, settings s
          where r.file_key = ${fileKey} and u.file_key = r.file_key and u.account_id = ${accountId}
            and u.completed_at is null and u.abandoned_at is null
            and r.writer = ${writer} and r.stored_bytes = ${start} and r.parts < ${MAX_PARTS}
            and r.stored_bytes + ${sizeBytes} <= least(r.length, r.max_bytes, ${maxBytes ?? null}::bigint)
          returning r.file_key, r.stored_bytes - u.reserved_bytes as lacks
        ), part as (
          insert into upload_parts (object_key, file_key, start_byte, size_bytes)
          select ${objectKey}, t.file_key, ${start}, ${sizeBytes} from taken t
        )
        select lacks from taken`;
      if (!row) throw new ApiError('not_found', 'This request may not continue the upload any more.');
      if (row.lacks > 0n) await setMoreRoomAside(tx, fileKey, accountId, row.lacks);
    });
  }

  async function parts(fileKey: string, accountId: string): Promise<ListUploadPartsResponse> {
    if (!isStorable(fileKey)) throw unknown();
    const rows = await sql<{ object_key: string; size_bytes: bigint }[]>`
      select p.object_key, p.size_bytes from upload_parts p join uploads u using (file_key)
      where p.file_key = ${fileKey} and u.account_id = ${accountId} order by p.start_byte`;
    return { parts: rows.map((row) => ({ objectKey: row.object_key, sizeBytes: row.size_bytes })) };
  }

  return { begin, take, record, parts };
}

/** Sets room aside for a file that became longer than was known. @throws ApiError at_capacity */
async function setMoreRoomAside(tx: Transaction, fileKey: string, accountId: string, lacks: bigint) {
  const more = lacks > UNKNOWN_BYTES ? lacks : UNKNOWN_BYTES;
  const [row] = await tx<(UploadOutcome & { stored_bytes: bigint })[]>`
    select e.*, r.stored_bytes from extend_upload(${fileKey}, ${accountId}, ${more}) e
    join resumable_uploads r on r.file_key = ${fileKey}`;
  if (row?.outcome !== 'extended') throw refusalOf(row);
  if ((row.reserved_bytes ?? 0n) >= row.stored_bytes) return;
  // There was some room, but less than these bytes take: what is full then says a look at no room.
  const [full] = await tx<UploadOutcome[]>`select * from extend_upload(${fileKey}, ${accountId}, 1)`;
  throw refusalOf(full);
}

export type ResumableUploads = ReturnType<typeof createResumableUploads>;

const unknown = () => new ApiError('not_found', 'There is no such upload under way.');
