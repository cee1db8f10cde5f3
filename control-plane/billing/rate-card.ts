import { ApiError } from '@semblance/common/errors';
import type { Micros } from '@semblance/common/money';
import { isCapability } from '@semblance/engine-api/capabilities';
import { requireAccount } from '../accounts/accounts.ts';
import type { Transaction } from '../storage/sql.ts';

/** Highest rate or minimum, 10,000 USD; a higher one is more likely a mistake. */
const MAX_RATE: Micros = 10_000_000_000n;

export interface NewRates {
  readonly capability: string;
  /** Undefined: the public rates. */
  readonly accountId: string | undefined;
  readonly rateMicros: Micros;
  readonly minimumMicros: Micros;
}

/**
 * Adds a version of a capability's rates with immediate effect; unit and hold units stay. Earlier submits keep
 * their price.
 * @throws ApiError invalid_input, not_found
 */
export async function setRates(
  sql: Transaction,
  { capability, accountId, rateMicros, minimumMicros }: NewRates,
): Promise<{ version: bigint; unit: string }> {
  requireCapability(capability);
  for (const amount of [rateMicros, minimumMicros]) {
    if (amount < 0n || amount > MAX_RATE)
      throw new ApiError('invalid_input', 'A rate and a minimum are from 0 to 10000 USD.');
  }
  if (accountId !== undefined) await requireAccount(sql, accountId);
  const [row] = await sql<{ version: bigint; unit: string }[]>`
    insert into rates (capability, account_id, unit, rates, minimum_micros, hold_milli_units)
    select r.capability, ${accountId ?? null}, r.unit,
           jsonb_build_array(jsonb_build_object('when', '{}'::jsonb, 'rate_micros', ${rateMicros}::bigint)),
           ${minimumMicros}, r.hold_milli_units
    from rates r where r.capability = ${capability} and (r.account_id is null or r.account_id = ${accountId ?? null})
    order by r.account_id is null, r.version desc limit 1
    returning version, unit`;
  if (!row) throw new Error(`${capability} has no rates to begin with`);
  return row;
}

/**
 * Sets the owner's switch of a capability.
 * @returns whether it is offered now; one that is switched on also needs an engine
 * @throws ApiError invalid_input
 */
export async function switchCapability(sql: Transaction, capability: string, on: boolean): Promise<boolean> {
  requireCapability(capability);
  const [row] = await sql<{ enabled: boolean }[]>`
    update capabilities set switched_on = ${on} where name = ${capability} returning switched_on and has_engine as enabled`;
  return row?.enabled ?? false;
}

function requireCapability(name: string): void {
  if (!isCapability(name))
    throw new ApiError('invalid_input', `There is no capability ${JSON.stringify(name.slice(0, 80))}.`);
}
