import { type Micros, microsToUsd, parseUsd } from '@semblance/common/money';
import type {
  AccountCaps,
  AccountKey,
  BalanceAlarm,
  CapView,
  KeyRules,
} from '@semblance/proto/semblance/control/v1/keys';
import type { z } from 'zod';
import type { accountChangeBody, keyChangeBody } from './schemas.ts';

/** Returns a key as the API shows it. */
export function keyRecord(key: AccountKey) {
  return {
    key_id: key.keyId,
    name: key.name ?? null,
    prefix: key.prefix ?? null,
    scopes: key.scopes,
    expires_at: key.expiresAt ?? null,
    allowed_addresses: key.allowedAddresses,
    caps: key.caps.map(capRecord),
    requests_per_minute: key.perMinute,
    created_at: key.createdAt,
    last_used_at: key.lastUsedAt ?? null,
    made_by: key.madeBy ?? null,
  };
}

/** Returns the caps of an account, and its alarm, as the API shows them. */
export function accountRecord(caps: readonly CapView[], alarm: BalanceAlarm) {
  return {
    alarm_balance_usd: usdOf(alarm.alarmBalanceMicros),
    available_usd: microsToUsd(alarm.availableMicros),
    balance_is_low: alarm.isLow,
    caps: caps.map((cap) => ({
      ...capRecord(cap),
      owner_cap_usd: usdOf(cap.ownerCapMicros),
      own_cap_usd: usdOf(cap.ownCapMicros),
    })),
  };
}

function capRecord({ period, capMicros, spentMicros, heldMicros, endsAt }: CapView) {
  return {
    period,
    cap_usd: usdOf(capMicros),
    spent_usd: microsToUsd(spentMicros),
    held_usd: microsToUsd(heldMicros),
    left_usd: capMicros === undefined ? null : microsToUsd(capMicros - spentMicros - heldMicros),
    ends_at: endsAt,
  };
}

const usdOf = (micros: Micros | undefined) => (micros === undefined ? null : microsToUsd(micros));

/** Returns the rules that a body sets; what it leaves out stays. */
export function rulesOf(body: z.output<typeof keyChangeBody>): KeyRules {
  const { scopes = [], expires_at: expiresAt, allowed_addresses: ranges } = body;
  return {
    scopes,
    expiresAt: expiresAt === null ? '' : expiresAt,
    allowedAddresses: ranges === undefined ? undefined : { ranges: ranges ?? [] },
    ...capsOf(body),
  };
}

/** Returns the caps that a body sets; -1: none. */
function capsOf(
  body: Pick<z.output<typeof accountChangeBody>, 'cap_day_usd' | 'cap_month_usd'>,
): AccountCaps {
  return { capDayMicros: microsOf(body.cap_day_usd), capMonthMicros: microsOf(body.cap_month_usd) };
}

/** Returns what a body sets of an account. */
export function accountRules(body: z.output<typeof accountChangeBody>): AccountCaps {
  return { ...capsOf(body), alarmBalanceMicros: microsOf(body.alarm_balance_usd) };
}

const microsOf = (amount: number | null | undefined) =>
  amount === undefined ? undefined : amount === null ? -1n : parseUsd(String(amount));
