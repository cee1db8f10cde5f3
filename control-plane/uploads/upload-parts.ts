import type { Database } from '../storage/database.ts';

/** Parts whose objects one sweep deletes. */
const SWEPT = 2_000;

/**
 * Deletes the parts of uploads that are complete, given up or gone: first the object, then its row. A part that a
 * request stored and did not record has no row; it is an orphan.
 * @param erased deletes an object; false when it could not
 * @param graceSeconds time for which the parts of a given-up upload stay, because a request under way may read them
 */
export async function sweepParts(
  { sql }: Pick<Database, 'sql'>,
  erased: (objectKey: string) => Promise<boolean>,
  graceSeconds: number,
): Promise<void> {
  const parts = await sql<{ object_key: string }[]>`
    select p.object_key from upload_parts p left join uploads u using (file_key)
    where u.file_key is null or u.completed_at is not null
      or u.abandoned_at < now() - ${graceSeconds} * interval '1 second'
    limit ${SWEPT}`;
  for (const { object_key } of parts)
    if (await erased(object_key)) await sql`delete from upload_parts where object_key = ${object_key}`;
}
