import { createHash } from 'node:crypto';
import type { Box } from '@semblance/engine-api/people';
import type { Sql, Transaction } from '../storage/sql.ts';

/** Prefix of crops in the object store; housekeeping removes those without a row. */
export const CROPS_PREFIX = 'faces/';

/** A person of an upload. */
export interface FaceRow {
  readonly face_id: string;
  readonly box: Box;
  readonly at_us: bigint;
  readonly frames: number;
  readonly not_source: string[];
  readonly not_target: string[];
  readonly look: string;
  readonly crop_key: string;
  readonly crop_bytes: bigint;
}

/** What was found in an upload. */
export interface FoundFaces {
  readonly kind: 'image' | 'video';
  readonly frames: number;
  readonly found_at: Date;
  readonly faces: readonly FaceRow[];
}

/** An upload in which people can be searched. */
export interface SearchedUpload {
  readonly kind: string;
  readonly animated: boolean;
  /** When retention deletes it; null: it is kept. */
  readonly until: Date | null;
}

/** Returns the id of a person: the same for the same upload and place, so that two searches at once agree. */
export function faceIdOf(fileKey: string, place: number): string {
  return `face-${createHash('sha256').update(`${fileKey}\n${place}`).digest('hex').slice(0, 26)}`;
}

export function cropKeyOf(faceId: string): string {
  return `${CROPS_PREFIX}${faceId}.jpg`;
}

/** Reads a complete upload of an account. */
export async function readUpload(
  sql: Sql,
  accountId: string,
  fileKey: string,
): Promise<SearchedUpload | undefined> {
  const [row] = await sql<SearchedUpload[]>`
    select u.kind, u.animated, u.completed_at + s.upload_retention_seconds * interval '1 second' as until
    from uploads u, settings s
    where u.file_key = ${fileKey} and u.account_id = ${accountId} and u.completed_at is not null`;
  return row;
}

/** Reads what was found in an upload; undefined: nobody searched in it. */
export async function readFaces(sql: Sql, fileKey: string): Promise<FoundFaces | undefined> {
  const [search] = await sql<{ kind: 'image' | 'video'; frames: number; found_at: Date }[]>`
    select kind, frames, found_at from face_searches where file_key = ${fileKey}`;
  if (!search) return undefined;
  const faces = await sql<FaceRow[]>`
    select face_id, box, at_us, frames, not_source, not_target, look, crop_key, crop_bytes
    from faces where file_key = ${fileKey} order by place`;
  return { ...search, faces };
}

/**
 * Keeps what was found, unless another search was first. A deletion of the upload comes before, and nothing is kept, or
 * after, and takes all of it away.
 * @returns whether the upload is still there
 */
export async function keepFaces(
  tx: Transaction,
  { accountId, fileKey }: { readonly accountId: string; readonly fileKey: string },
  found: Omit<FoundFaces, 'found_at'>,
): Promise<boolean> {
  const [still] = await tx`
    select 1 from uploads where file_key = ${fileKey} and account_id = ${accountId} and completed_at is not null
    for key share`;
  if (!still) return false;
  const [first] = await tx`
    insert into face_searches (file_key, kind, frames) values (${fileKey}, ${found.kind}, ${found.frames})
    on conflict do nothing returning file_key`;
  if (!first || found.faces.length === 0) return true;
  await tx`
    insert into faces (face_id, file_key, place, box, at_us, frames, not_source, not_target, look, crop_key, crop_bytes)
    select f.face_id, ${fileKey}, f.place, f.box, f.at_us, f.frames, f.not_source, f.not_target, f.look, f.crop_key, f.crop_bytes
    from jsonb_to_recordset(${tx.json(found.faces.map((face, place) => ({ ...face, at_us: Number(face.at_us), crop_bytes: Number(face.crop_bytes), place })))}::jsonb)
      as f(face_id text, place int, box jsonb, at_us bigint, frames int, not_source text[], not_target text[], look text,
           crop_key text, crop_bytes bigint)`;
  return true;
}
