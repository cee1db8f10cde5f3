import type { Sql } from '../storage/sql.ts';

/** Accounts whose books are recomputed by one statement, so that none takes long and each sees one moment. */
const BATCH = 200;

export interface BooksFault {
  readonly accountId: string;
  /**
   * Recomputed and stored values, in micro-dollars: {available, held, spent, topped up, held again, reserved, and
   * the number of open holds}.
   */
  readonly expected: string;
  readonly found: string;
}

/**
 * Recomputes the balances and open holds of every account from the transfers alone and compares them with the
 * stored ones, the pending holds with unsettled jobs, and the reserved sum with the blocks of open sessions. It is
 * the part of `ledger_faults` that can run repeatedly for all accounts.
 */
export async function auditBooks(
  sql: Sql,
  signal: AbortSignal,
): Promise<{ accounts: number; belowZero: number; faults: BooksFault[] }> {
  let accounts = 0;
  let belowZero = 0;
  let last = '';
  const faults: BooksFault[] = [];
  for (;;) {
    signal.throwIfAborted();
    const rows = await sql<
      { account_id: string; expected: string; found: string; agrees: boolean; debtor: boolean }[]
    >`
      with batch as (
        select account_id, available_micros, held_micros, spent_micros, topped_up_micros, reserved_micros, holds_open
        from account_balances
        where account_id > ${last} order by account_id limit ${BATCH}
      ), booked as (
        select t.account_id,
               coalesce(sum(amount_micros) filter (where credit = 'available'), 0)
                 - coalesce(sum(amount_micros) filter (where debit = 'available'), 0) as available,
               coalesce(sum(amount_micros) filter (where credit = 'held'), 0)
                 - coalesce(sum(amount_micros) filter (where debit = 'held'), 0) as held,
               coalesce(sum(amount_micros) filter (where credit = 'revenue'), 0)
                 - coalesce(sum(amount_micros) filter (where debit = 'revenue'), 0) as spent,
               coalesce(sum(amount_micros) filter (where debit = 'funding'), 0)
                 - coalesce(sum(amount_micros) filter (where credit = 'funding'), 0) as topped_up,
               count(*) filter (where kind = 'hold') - count(*) filter (where kind in ('capture', 'release')) as open
        from ledger_transfers t where t.account_id in (select account_id from batch) group by t.account_id
      ), pending as (
        select j.account_id, sum(j.hold_micros) as held from jobs j
        where j.settled_at is null and j.account_id in (select account_id from batch) group by j.account_id
      ), blocks as (
        select s.account_id, sum(s.max_cost_micros) as reserved from sessions s
        where s.ended_at is null and s.account_id in (select account_id from batch) group by s.account_id
      ), compared as (
        select s.account_id,
               array[coalesce(b.available, 0), coalesce(b.held, 0), coalesce(b.spent, 0), coalesce(b.topped_up, 0),
                     coalesce(b.held, 0), coalesce(o.reserved, 0), coalesce(b.open, 0)] as expected,
               array[s.available_micros::numeric, s.held_micros, s.spent_micros, s.topped_up_micros,
                     coalesce(p.held, 0), s.reserved_micros, s.holds_open] as found
        from batch s left join booked b using (account_id) left join pending p using (account_id)
             left join blocks o using (account_id)
      )
      select account_id, expected::text, found::text, expected = found as agrees, found[1] < 0 as debtor from compared order by account_id`;
    const end = rows.at(-1);
    if (!end) return { accounts, belowZero, faults };
    accounts += rows.length;
    last = end.account_id;
    for (const { account_id: accountId, expected, found, agrees, debtor } of rows) {
      if (debtor) belowZero++;
      if (!agrees) faults.push({ accountId, expected, found });
    }
  }
}
