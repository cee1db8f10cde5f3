import { ApiError } from '@semblance/common/errors';

/** Room for a file of which nothing is known, in bytes. */
export const UNKNOWN_BYTES = 64n * 1024n * 1024n;

/** Result of `begin_upload`, `extend_upload` and `complete_upload`. */
export interface UploadOutcome {
  readonly outcome: 'begun' | 'extended' | 'complete' | 'unknown' | 'account_full' | 'day_full';
  readonly reserved_bytes: bigint | null;
  readonly limit_mb: number | null;
  readonly retry_seconds: number | null;
  readonly link_seconds: number | null;
}

/** Retry-After of an account that is full, in seconds: it has to delete files first, or its uploads under way to end. */
const FULL_RETRY_SECONDS = 30;

/** Returns why an upload is refused. */
export function refusalOf(row: UploadOutcome | undefined): Error {
  const limit = size(row?.limit_mb ?? 0);
  switch (row?.outcome) {
    case 'account_full':
      return new ApiError(
        'at_capacity',
        `The uploads of this account, with those under way, may have ${limit} together. Delete some, or wait until their retention ends.`,
        { retryAfterSeconds: FULL_RETRY_SECONDS },
      );
    case 'day_full':
      return new ApiError(
        'at_capacity',
        `An account without a balance may upload ${limit} a day (UTC). Upload again tomorrow, or after a top-up.`,
        { retryAfterSeconds: row.retry_seconds ?? undefined },
      );
    default:
      return new Error(`unknown outcome of an upload: ${row?.outcome}`);
  }
}

function size(mb: number): string {
  return mb >= 1_000 && mb % 100 === 0 ? `${mb / 1_000} GB` : `${mb} MB`;
}
