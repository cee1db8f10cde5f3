import { microsToUsd } from '@semblance/common/money';
import type {
  CapsOf,
  SetCapsRequest,
  SetCapsResponse,
  ShowCapsRequest,
  ShowCapsResponse,
} from '@semblance/proto/semblance/admin/v1/admin';
import { requireAccount } from '../accounts/accounts.ts';
import { readAlarm, setAlarm } from '../billing/balance-alarm.ts';
import { checkCap, readCaps } from '../billing/caps.ts';
import { isStorable, type Transaction } from '../storage/sql.ts';
import type { Changed } from './changes.ts';

/** Lists the caps of an account with its alarm, and those of its valid keys; or the caps of one key. @throws ApiError not_found */
export async function showCaps(
  sql: Transaction,
  { accountId, keyId }: ShowCapsRequest,
): Promise<ShowCapsResponse> {
  await requireAccount(sql, accountId);
  const keys =
    keyId !== undefined && !isStorable(keyId)
      ? []
      : await sql<{ id: string }[]>`
          select id from api_keys where account_id = ${accountId} and id = coalesce(${keyId ?? null}, id)
            and revoked_at is null order by created_at, id`;
  const holders: CapsOf[] = keyId === undefined ? [await capsOfAccount(sql, accountId)] : [];
  for (const { id } of keys)
    holders.push({ accountId, keyId: id, caps: await readCaps(sql, { accountId, keyId: id }) });
  return { holders, ...(keyId === undefined && { alarm: await readAlarm(sql, accountId) }) };
}

async function capsOfAccount(sql: Transaction, accountId: string): Promise<CapsOf> {
  return { accountId, caps: await readCaps(sql, { accountId }) };
}

/** Sets the service owner's caps of an account, and its alarm. @throws ApiError not_found, invalid_input */
export async function capsSet(
  tx: Transaction,
  { accountId, caps = {} }: SetCapsRequest,
): Promise<Changed<SetCapsResponse>> {
  const [day, month] = [checkCap(caps.capDayMicros), checkCap(caps.capMonthMicros)];
  await requireAccount(tx, accountId);
  const before = await ownerCaps(tx, accountId);
  await tx`
    update accounts set
      cap_day_micros = case when ${day !== undefined} then ${day ?? null}::bigint else cap_day_micros end,
      cap_month_micros = case when ${month !== undefined} then ${month ?? null}::bigint else cap_month_micros end
    where id = ${accountId}`;
  await setAlarm(tx, accountId, caps.alarmBalanceMicros);
  const after = await ownerCaps(tx, accountId);
  return {
    response: { caps: await capsOfAccount(tx, accountId), alarm: await readAlarm(tx, accountId) },
    audit: { accountId, subject: accountId, before, after },
  };
}

async function ownerCaps(tx: Transaction, accountId: string) {
  const [row] = await tx<{ day: bigint | null; month: bigint | null; alarm: bigint | null }[]>`
    select a.cap_day_micros as day, a.cap_month_micros as month, b.alarm_micros as alarm
    from accounts a join account_balances b on b.account_id = a.id where a.id = ${accountId} for no key update of a`;
  const usd = (micros: bigint | null | undefined) => (micros == null ? null : microsToUsd(micros));
  return { cap_day_usd: usd(row?.day), cap_month_usd: usd(row?.month), alarm_balance_usd: usd(row?.alarm) };
}
