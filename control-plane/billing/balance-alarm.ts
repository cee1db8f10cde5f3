import type { BalanceAlarm } from '@semblance/proto/semblance/control/v1/keys';
import type { Transaction } from '../storage/sql.ts';
import { checkCap } from './caps.ts';

/**
 * Sets the available balance below which an account is told so. When it is low already, it is told the next time.
 * @param micros -1: none; undefined: it stays @throws ApiError invalid_input
 */
export async function setAlarm(
  tx: Transaction,
  accountId: string,
  micros: bigint | undefined,
): Promise<void> {
  const alarm = checkCap(micros);
  if (alarm === undefined) return;
  await tx`
    update account_balances set alarm_micros = ${alarm}::bigint,
      is_low = coalesce(available_micros - reserved_micros < ${alarm}::bigint, false)
    where account_id = ${accountId}`;
}

export async function readAlarm(sql: Transaction, accountId: string): Promise<BalanceAlarm> {
  const [row] = await sql<{ alarm: bigint | null; available: bigint; low: boolean }[]>`
    select alarm_micros as alarm, available_micros - reserved_micros as available,
           coalesce(available_micros - reserved_micros < alarm_micros, false) as low
    from account_balances where account_id = ${accountId}`;
  if (!row) throw new Error(`account ${accountId} has no balance`);
  return { alarmBalanceMicros: row.alarm ?? undefined, availableMicros: row.available, isLow: row.low };
}
