import { ApiError } from '@semblance/common/errors';
import { parseMoment } from '@semblance/common/moment';
import type { Micros } from '@semblance/common/money';
import { isCapability } from '@semblance/engine-api/capabilities';
import { isPreviewed, PREVIEWED } from '@semblance/engine-api/previewed';
import type { Rate, RateTable, SetRatesRequest } from '@semblance/proto/semblance/admin/v1/admin';
import { requireAccount } from '../accounts/accounts.ts';
import type { Transaction } from '../storage/sql.ts';
import { mergeRates } from './merge-rates.ts';

/** Highest rate or minimum, 10,000 USD; a higher one is more likely a mistake. */
const MAX_RATE: Micros = 10_000_000_000n;
/** Largest number of units that a hold assumes, in thousandths: a day of seconds. */
const MAX_HOLD = 86_400_000n;

/** Rates of a capability that count now. */
export interface RatesInForce {
  readonly version: bigint;
  readonly effectiveAt: Date;
  readonly unit: string;
  readonly own: boolean;
  readonly table: RateTable;
}

export interface RateRow {
  readonly version: bigint;
  readonly effective_at: Date;
  readonly capability: string;
  readonly account_id: string | null;
  readonly unit: string;
  readonly minimum_micros: bigint;
  readonly hold_milli_units: bigint;
  readonly preview_micros: bigint;
  readonly rates: readonly { readonly when: Record<string, string>; readonly rate_micros: number }[];
}

/** A change of rates that was checked. */
export interface PlannedRates {
  readonly unit: string;
  readonly before: RateTable;
  readonly after: RateTable;
  /** Undefined: at once. */
  readonly startsAt: Date | undefined;
}

export const tableOf = (
  row: Pick<RateRow, 'capability' | 'rates' | 'minimum_micros' | 'hold_milli_units' | 'preview_micros'>,
): RateTable => ({
  rates: row.rates.map(({ when, rate_micros }) => ({ when, rateMicros: BigInt(rate_micros) })),
  minimumMicros: row.minimum_micros,
  holdMilliUnits: row.hold_milli_units,
  previewMicros: isPreviewed(row.capability) ? row.preview_micros : undefined,
});

/** Returns the rates that count for an account, or for everybody. @throws ApiError invalid_input */
export async function ratesInForce(
  sql: Transaction,
  capability: string,
  accountId?: string,
): Promise<RatesInForce> {
  requireCapability(capability);
  const [row] = await sql<RateRow[]>`select * from rates_in_force(${capability}, ${accountId ?? null})`;
  if (!row) throw new Error(`${capability} has no rates`);
  return {
    version: row.version,
    effectiveAt: row.effective_at,
    unit: row.unit,
    own: row.account_id !== null,
    table: tableOf(row),
  };
}

/**
 * Returns what a change of rates would bring.
 * @throws ApiError invalid_input, not_found
 */
export async function planRates(sql: Transaction, change: SetRatesRequest): Promise<PlannedRates> {
  const { capability, accountId, rates, whole, minimumMicros, holdMilliUnits, previewMicros, startsAt } =
    change;
  const { table: before, unit } = await ratesInForce(sql, capability, accountId);
  const sizes = await sql<{ parameter: string; value: string }[]>`
    select parameter, value from sizes_of(${capability})`;
  const after: RateTable = {
    rates: mergeRates(before.rates, rates, { whole, sizes: [...sizes] }),
    minimumMicros: minimumMicros ?? before.minimumMicros,
    holdMilliUnits: holdMilliUnits ?? before.holdMilliUnits,
    previewMicros: previewMicros ?? before.previewMicros,
  };
  checkAmounts(after);
  if (previewMicros !== undefined && !isPreviewed(capability))
    throw new ApiError('invalid_input', `There are previews of ${PREVIEWED.join(' and ')} alone.`);
  if (after.holdMilliUnits < 1n || after.holdMilliUnits > MAX_HOLD)
    throw new ApiError('invalid_input', 'A hold assumes 0.001 to 86400 units.');
  if (accountId !== undefined) await requireAccount(sql, accountId);
  return { unit, before, after, startsAt: startsAt === undefined ? undefined : laterMoment(startsAt) };
}

/** @throws ApiError invalid_input */
function checkAmounts({ rates, minimumMicros, previewMicros = 0n }: RateTable): void {
  for (const amount of [...rates.map(({ rateMicros }) => rateMicros), minimumMicros, previewMicros]) {
    if (amount < 0n || amount > MAX_RATE)
      throw new ApiError(
        'invalid_input',
        'A rate, a minimum and a price of previews are from 0 to 10000 USD.',
      );
  }
}

function laterMoment(text: string): Date {
  const moment = parseMoment(text);
  if (moment === undefined)
    throw new ApiError('invalid_input', 'The beginning must be a date or an ISO 8601 time with its zone.');
  const at = new Date(Number(moment / 1000n));
  if (at.getTime() <= Date.now())
    throw new ApiError('invalid_input', 'The beginning is over. Leave it out for rates that count at once.');
  return at;
}

const stored = ({ when, rateMicros }: Rate) => ({ when, rate_micros: Number(rateMicros) });

/**
 * Adds a version of a capability's rates that counts at once, or rates to come. Earlier submits keep their price.
 * @throws ApiError invalid_input, not_found
 */
export async function setRates(
  tx: Transaction,
  change: SetRatesRequest,
): Promise<PlannedRates & { readonly version?: bigint; readonly comingId?: bigint }> {
  const plan = await planRates(tx, change);
  const { capability, accountId } = change;
  const { after, unit, startsAt } = plan;
  const rates = tx.json(after.rates.map(stored));
  if (startsAt) {
    const [row] = await tx<{ id: bigint }[]>`
      insert into rates_to_come
        (capability, account_id, unit, rates, minimum_micros, hold_milli_units, preview_micros, starts_at)
      values (${capability}, ${accountId ?? null}, ${unit}, ${rates}::jsonb, ${after.minimumMicros},
              ${after.holdMilliUnits}, ${after.previewMicros ?? 0n}, ${startsAt}) returning id`;
    return { ...plan, ...(row && { comingId: row.id }) };
  }
  const [row] = await tx<{ version: bigint }[]>`
    insert into rates (capability, account_id, unit, rates, minimum_micros, hold_milli_units, preview_micros)
    values (${capability}, ${accountId ?? null}, ${unit}, ${rates}::jsonb, ${after.minimumMicros},
            ${after.holdMilliUnits}, ${after.previewMicros ?? 0n}) returning version`;
  return { ...plan, ...(row && { version: row.version }) };
}

/**
 * Ends an account's own rates of a capability, so that the public ones count for it.
 * @throws ApiError invalid_input, not_found when it has none
 */
export async function resetRates(
  tx: Transaction,
  { accountId, capability }: { readonly accountId: string; readonly capability: string },
): Promise<{ readonly version: bigint; readonly before: RateTable; readonly after: RateTable }> {
  await requireAccount(tx, accountId);
  const { own, table: before } = await ratesInForce(tx, capability, accountId);
  if (!own) throw new ApiError('not_found', `The account has no rates of its own for ${capability}.`);
  const { table: after, unit } = await ratesInForce(tx, capability);
  const [row] = await tx<{ version: bigint }[]>`
    insert into rates (capability, account_id, unit, rates, minimum_micros, hold_milli_units, preview_micros, withdrawn)
    values (${capability}, ${accountId}, ${unit}, ${tx.json(after.rates.map(stored))}::jsonb, ${after.minimumMicros},
            ${after.holdMilliUnits}, ${after.previewMicros ?? 0n}, true) returning version`;
  if (!row) throw new Error('an insert has returned nothing');
  return { version: row.version, before, after };
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
