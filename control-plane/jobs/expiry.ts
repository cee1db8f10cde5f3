import { ApiError } from '@semblance/common/errors';
import type { Sql } from '../storage/sql.ts';
import type { Submission } from './submission.ts';

/**
 * Refuses a time that is longer than the installation keeps outputs. If the setting is shortened afterwards, the shorter
 * time counts. A repeat is not checked again: it finds its job, whatever the setting is by now.
 * @throws ApiError invalid_input
 */
export async function checkExpiry(
  sql: Sql,
  {
    accountId,
    idempotencyKey,
    expiresInSeconds,
  }: Pick<Submission, 'accountId' | 'idempotencyKey' | 'expiresInSeconds'>,
): Promise<void> {
  if (expiresInSeconds === undefined) return;
  const [row] = await sql<{ most: number | null; repeated: boolean }[]>`
    select output_retention_seconds as most,
           exists (select 1 from idempotency_keys i where i.account_id = ${accountId} and i.key = ${idempotencyKey ?? ''}) as repeated
      from settings`;
  const most = row?.most ?? null;
  if (most !== null && expiresInSeconds > most && !row?.repeated)
    throw new ApiError(
      'invalid_input',
      `\`expires_in\` must be at most ${most}: this service keeps outputs for ${most} s.`,
    );
}
