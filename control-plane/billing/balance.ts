import type { GetBalanceResponse } from '@semblance/proto/semblance/control/v1/control';
import type { Sql } from '../storage/sql.ts';

/**
 * Returns an account's balance, what is held and reserved of it, and its spend. Weeks begin on Monday; all periods begin at midnight UTC.
 * @param at moment of the periods; default: now, by the database's clock
 */
export async function readBalance(sql: Sql, accountId: string, at?: Date): Promise<GetBalanceResponse> {
  const [row] = await sql<
    Record<'available' | 'held' | 'reserved' | 'spent' | 'topped_up' | 'week' | 'month' | 'year', bigint>[]
  >`
    with today as (select coalesce(${at ?? null}::timestamptz, now()) at time zone 'UTC' as moment),
    periods as (
      select date_trunc('week', moment)::date as week, date_trunc('month', moment)::date as month,
             date_trunc('year', moment)::date as year, moment::date as day from today
    )
    select b.available_micros as available, b.held_micros as held, b.reserved_micros as reserved, b.spent_micros as spent, b.topped_up_micros as topped_up,
           coalesce(sum(d.spent_micros) filter (where d.day >= p.week), 0)::bigint as week,
           coalesce(sum(d.spent_micros) filter (where d.day >= p.month), 0)::bigint as month,
           coalesce(sum(d.spent_micros) filter (where d.day >= p.year), 0)::bigint as year
    from account_balances b
    cross join periods p
    left join spend_days d on d.account_id = b.account_id and d.day between least(p.week, p.year) and p.day
    where b.account_id = ${accountId}
    group by b.account_id, p.week, p.month, p.year`;
  if (!row) throw new Error(`account ${accountId} has no books`);
  return {
    balanceMicros: row.available,
    totalSpentMicros: row.spent,
    totalToppedUpMicros: row.topped_up,
    spentThisWeekMicros: row.week,
    spentThisMonthMicros: row.month,
    spentThisYearMicros: row.year,
    heldMicros: row.held,
    reservedMicros: row.reserved,
    availableMicros: row.available - row.reserved,
  };
}
