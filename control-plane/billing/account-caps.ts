import { ApiError } from '@semblance/common/errors';
import { microsToUsd } from '@semblance/common/money';
import type { AccountCaps } from '@semblance/proto/semblance/control/v1/keys';
import type { AuditFacts } from '../audit/audit.ts';
import type { Transaction } from '../storage/sql.ts';
import { setAlarm } from './balance-alarm.ts';
import { checkCap } from './caps.ts';

interface Row {
  readonly day: bigint | null;
  readonly month: bigint | null;
  readonly owner_day: bigint | null;
  readonly owner_month: bigint | null;
  readonly alarm: bigint | null;
}

/** Sets the holder's own caps of an account, and its alarm. @throws ApiError invalid_input, forbidden above the service owner's */
export async function setAccountCaps(
  tx: Transaction,
  accountId: string,
  caps: AccountCaps = {},
): Promise<AuditFacts> {
  const [day, month] = [checkCap(caps.capDayMicros), checkCap(caps.capMonthMicros)];
  const before = await ownCaps(tx, accountId);
  requireAtMost('day', day, before.owner_day);
  requireAtMost('month', month, before.owner_month);
  await tx`
    update accounts set
      own_cap_day_micros = case when ${day !== undefined} then ${day ?? null}::bigint else own_cap_day_micros end,
      own_cap_month_micros = case when ${month !== undefined} then ${month ?? null}::bigint else own_cap_month_micros end
    where id = ${accountId}`;
  await setAlarm(tx, accountId, caps.alarmBalanceMicros);
  const after = await ownCaps(tx, accountId);
  return { accountId, subject: accountId, before: factsOf(before), after: factsOf(after) };
}

function requireAtMost(period: string, own: bigint | null | undefined, owner: bigint | null): void {
  if (own != null && owner !== null && own > owner)
    throw new ApiError(
      'forbidden',
      `The service owner set the cap of a ${period} to ${microsToUsd(owner)} USD; yours is at most that.`,
    );
}

async function ownCaps(tx: Transaction, accountId: string): Promise<Row> {
  const [row] = await tx<Row[]>`
    select own_cap_day_micros as day, own_cap_month_micros as month, cap_day_micros as owner_day,
           cap_month_micros as owner_month, b.alarm_micros as alarm
    from accounts a join account_balances b on b.account_id = a.id where a.id = ${accountId} for no key update of a`;
  if (!row) throw new Error(`account ${accountId} is gone`);
  return row;
}

function factsOf({ day, month, alarm }: Row) {
  const usd = (micros: bigint | null) => (micros === null ? null : microsToUsd(micros));
  return { own_cap_day_usd: usd(day), own_cap_month_usd: usd(month), alarm_balance_usd: usd(alarm) };
}
