import { ApiError } from '@semblance/common/errors';
import type { AccountLimit } from '@semblance/proto/semblance/admin/v1/admin';
import type { Transaction } from '../storage/sql.ts';
import { requireAccount } from './accounts.ts';

export interface Limits {
  /** Jobs queued or processing at once. */
  readonly jobsInFlight: number;
  readonly liveSessions: number;
  /** Megabytes of uploads that are stored, and that are stored in a day without money. Undefined: no limit. */
  readonly storedMb: number | undefined;
  readonly dailyMb: number | undefined;
  /** Slot-seconds in an hour of renders that fail on their inputs, take too long or are cancelled. Undefined: no limit. */
  readonly failedSlotSeconds: number | undefined;
}

/** Sets the given limits; the others stay the account's own or the platform's. @throws ApiError */
export async function setLimits(
  sql: Transaction,
  accountId: string,
  limits: Partial<Limits>,
): Promise<Limits> {
  const { jobsInFlight, liveSessions, storedMb, dailyMb, failedSlotSeconds } = limits;
  requireBetween([jobsInFlight, liveSessions], 1_000_000);
  requireBetween([storedMb, dailyMb, failedSlotSeconds], 1_000_000_000);
  await requireAccount(sql, accountId);
  const [row] = await sql<Record<keyof Limits, number | null>[]>`
    update accounts a set jobs_in_flight_limit = coalesce(${jobsInFlight ?? null}, a.jobs_in_flight_limit),
                          live_sessions_limit = coalesce(${liveSessions ?? null}, a.live_sessions_limit),
                          stored_mb_limit = coalesce(${storedMb ?? null}, a.stored_mb_limit),
                          daily_mb_limit = coalesce(${dailyMb ?? null}, a.daily_mb_limit),
                          failed_slot_seconds_limit = coalesce(${failedSlotSeconds ?? null}, a.failed_slot_seconds_limit)
    from settings s where a.id = ${accountId}
    returning coalesce(a.jobs_in_flight_limit, s.jobs_in_flight_per_account) as "jobsInFlight",
              coalesce(a.live_sessions_limit, s.live_sessions_per_account) as "liveSessions",
              coalesce(a.stored_mb_limit, s.stored_mb_per_account) as "storedMb",
              coalesce(a.daily_mb_limit, s.daily_mb_without_money) as "dailyMb",
              coalesce(a.failed_slot_seconds_limit, s.failed_slot_seconds_per_hour) as "failedSlotSeconds"`;
  if (!row) throw new Error(`account ${accountId} vanished`);
  return {
    jobsInFlight: row.jobsInFlight ?? 0,
    liveSessions: row.liveSessions ?? 0,
    storedMb: row.storedMb ?? undefined,
    dailyMb: row.dailyMb ?? undefined,
    failedSlotSeconds: row.failedSlotSeconds ?? undefined,
  };
}

function requireBetween(limits: readonly (number | undefined)[], most: number): void {
  if (limits.some((limit) => limit !== undefined && !(limit >= 0 && limit <= most)))
    throw new ApiError('invalid_input', `A limit is a whole number from 0 to ${most}.`);
}

/** Returns the limits of an account with what it uses of each. @throws ApiError not_found */
export async function showLimits(sql: Transaction, accountId: string): Promise<AccountLimit[]> {
  await requireAccount(sql, accountId);
  const rows = await sql<{ name: string; own: number | null; usual: number | null; used: number }[]>`
    select l.name, l.own, l.usual, coalesce(l.used, 0)::float8 as used
    from accounts a join account_balances b on b.account_id = a.id cross join settings s
      left join account_uploads u on u.account_id = a.id
      cross join lateral (values
        ('jobs_in_flight', a.jobs_in_flight_limit, s.jobs_in_flight_per_account, b.holds_open::numeric),
        ('live_sessions', a.live_sessions_limit, s.live_sessions_per_account,
          (select count(*) from sessions e where e.account_id = a.id and e.ended_at is null)),
        ('stored_mb', a.stored_mb_limit, s.stored_mb_per_account, (u.stored_bytes + u.reserved_bytes) / 1e6),
        ('daily_mb', a.daily_mb_limit, s.daily_mb_without_money,
          (case when u.day = today_utc() then u.day_bytes else 0 end + u.reserved_bytes) / 1e6),
        ('failed_slot_seconds', a.failed_slot_seconds_limit, s.failed_slot_seconds_per_hour,
          (select sum(w.slot_ms) / 1e3 from failed_work w
           where w.account_id = a.id and w.minute > now() - interval '1 hour'))
      ) as l(name, own, usual, used)
    where a.id = ${accountId}`;
  return rows.map(({ name, own, usual, used }) => ({
    name,
    limit: own ?? usual ?? undefined,
    own: own !== null,
    used,
  }));
}
