import { ApiError } from '@semblance/common/errors';
import type {
  SummarizeAccountsRequest,
  SummarizeAccountsResponse,
} from '@semblance/proto/semblance/admin/v1/admin';
import { isStorable, type Sql } from '../storage/sql.ts';

/** Most accounts of one answer. */
const MOST = 10_000;

type Row = Record<
  | 'succeeded'
  | 'failed'
  | 'in_flight'
  | 'spent_micros'
  | 'topped_up_micros'
  | 'refunded_micros'
  | 'corrected_micros'
  | 'available_micros',
  bigint
> & { readonly account_id: string; readonly name: string };

/**
 * Sums a month of all accounts by one statement, which sees one moment. Accounts without calls and bookings are left
 * out. @throws ApiError invalid_input
 */
export async function summarizeAccounts(
  sql: Sql,
  { month, after, limit }: SummarizeAccountsRequest,
): Promise<SummarizeAccountsResponse> {
  const asked = month === '' ? new Date().toISOString().slice(0, 7) : month;
  if (!/^[1-9]\d{3}-(0[1-9]|1[0-2])$/.test(asked))
    throw new ApiError('invalid_input', 'A month is written 2026-01.');
  if (limit < 0 || limit > MOST || !isStorable(after))
    throw new ApiError('invalid_input', `A limit is from 1 to ${MOST}.`);
  const rows = await sql<Row[]>`
    select * from usage_of_accounts(${`${asked}-01`}::date, ${after}, ${limit === 0 ? MOST : limit})`;
  return {
    month: asked,
    accounts: rows.map((row) => ({
      accountId: row.account_id,
      name: row.name,
      succeeded: row.succeeded,
      failed: row.failed,
      inFlight: row.in_flight,
      spentMicros: row.spent_micros,
      toppedUpMicros: row.topped_up_micros,
      refundedMicros: row.refunded_micros,
      correctedMicros: row.corrected_micros,
      balanceMicros: row.available_micros,
    })),
  };
}
