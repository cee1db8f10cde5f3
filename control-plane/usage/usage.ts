import { ApiError } from '@semblance/common/errors';
import { CAPABILITIES, CAPABILITY_NAMES } from '@semblance/engine-api/capabilities';
import type { SpendDay } from '@semblance/proto/semblance/control/v1/control';
import type { UsageEntry, UsageRange, UsageSummary } from '@semblance/proto/semblance/control/v1/usage';
import { timestampOf } from '../storage/moments.ts';
import type { Sql } from '../storage/sql.ts';

const MAX_USAGE_ENTRIES = 500;
const MAX_DAYS = 366;

/**
 * Lists calls of an account, newest first. Their times all differ, so a reader gets the next page by asking for
 * calls before the last entry.
 * @throws ApiError invalid_input
 */
export async function readUsage(
  sql: Sql,
  accountId: string,
  range: UsageRange | undefined,
  limit: number,
): Promise<UsageEntry[]> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_USAGE_ENTRIES)
    throw new ApiError('invalid_input', `\`limit\` is a whole number from 1 to ${MAX_USAGE_ENTRIES}.`);
  const { from, to } = boundsOf(range);
  const rows = await sql<
    {
      id: string;
      capability: string;
      status: string;
      charged_micros: bigint;
      reason: string | null;
      created_at: string;
    }[]
  >`
    select id, capability, status, charged_micros, reason,
           to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as created_at
    from usage_entries e
    where account_id = ${accountId} and e.created_at >= ${from}::timestamptz and e.created_at < ${to}::timestamptz
    order by e.created_at desc, id desc limit ${limit}`;
  return rows.map((row) => ({
    id: row.id,
    capability: row.capability,
    status: row.status,
    chargedMicros: row.charged_micros,
    reason: row.reason ?? undefined,
    createdAt: row.created_at,
  }));
}

/** Sums the calls of an account at one moment: a call counted as under way is not counted as ended. */
export async function summarizeUsage(
  sql: Sql,
  accountId: string,
  range: UsageRange | undefined,
): Promise<UsageSummary> {
  const { from, to } = boundsOf(range);
  const rows = await sql<
    { capability: string; succeeded: bigint; failed: bigint; in_flight: bigint; spent_micros: bigint }[]
  >`select * from usage_summary(${accountId}, ${from}::timestamptz, ${to}::timestamptz)`;
  const sum = (of: (row: (typeof rows)[number]) => bigint) =>
    rows.reduce((total, row) => total + of(row), 0n);
  return {
    succeeded: sum((row) => row.succeeded),
    failed: sum((row) => row.failed),
    inFlight: sum((row) => row.in_flight),
    spentMicros: sum((row) => row.spent_micros),
    features: CAPABILITY_NAMES.flatMap((name) => {
      const row = rows.find(({ capability }) => capability === name);
      if (!row) return [];
      const calls = row.succeeded + row.failed + row.in_flight;
      return [{ feature: CAPABILITIES[name].feature, calls, spentMicros: row.spent_micros }];
    }),
  };
}

/** Returns the ends of a range in Postgres's form. @throws ApiError invalid_input */
export function boundsOf(range: UsageRange | undefined): { from: string; to: string } {
  const { fromMicros, toMicros } = range ?? {};
  if (fromMicros !== undefined && toMicros !== undefined && fromMicros > toMicros)
    throw new ApiError('invalid_input', '`from` must not be later than `to`.');
  return {
    from: fromMicros === undefined ? '-infinity' : timestampOf(fromMicros),
    to: toMicros === undefined ? 'infinity' : timestampOf(toMicros),
  };
}

/**
 * Lists what an account was charged on each of the last days (UTC), the oldest first; a refund lessens the day of its charge.
 * @throws ApiError invalid_input
 */
export async function spendByDay(sql: Sql, accountId: string, days: number): Promise<SpendDay[]> {
  if (!Number.isInteger(days) || days < 1 || days > MAX_DAYS)
    throw new ApiError('invalid_input', `\`days\` is a whole number from 1 to ${MAX_DAYS}.`);
  const rows = await sql<{ day: string; spent_micros: bigint }[]>`
    select to_char(q.day, 'YYYY-MM-DD') as day, coalesce(d.spent_micros, 0) as spent_micros
    from (select (today_utc() - n)::date as day from generate_series(0, ${days}::int - 1) n) q
    left join spend_days d on d.account_id = ${accountId} and d.day = q.day
    order by q.day`;
  return rows.map(({ day, spent_micros: spentMicros }) => ({ day, spentMicros }));
}
