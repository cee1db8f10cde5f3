import { ApiError } from '@semblance/common/errors';
import { microsToUsd } from '@semblance/common/money';
import { CAPABILITY_NAMES } from '@semblance/engine-api/capabilities';
import type {
  CancelRatesRequest,
  CancelRatesResponse,
  CapabilityRates,
  ComingRates,
  ListRatesRequest,
  PreviewRatesRequest,
  PreviewRatesResponse,
  RateTable,
  ResetRatesRequest,
  ResetRatesResponse,
  SetRatesRequest,
  SetRatesResponse,
} from '@semblance/proto/semblance/admin/v1/admin';
import { requireAccount } from '../accounts/accounts.ts';
import {
  planRates,
  type RateRow,
  ratesInForce,
  resetRates,
  setRates,
  tableOf,
} from '../billing/rate-card.ts';
import type { Sql, Transaction } from '../storage/sql.ts';
import type { Changed } from './changes.ts';

/** Returns a table of rates as the audit records it. */
const recorded = ({ rates, minimumMicros, holdMilliUnits, previewMicros }: RateTable) => ({
  rates: rates.map(({ when, rateMicros }) => ({ when, rate_usd: microsToUsd(rateMicros) })),
  minimum_usd: microsToUsd(minimumMicros),
  hold_units: Number(holdMilliUnits) / 1000,
  ...(previewMicros !== undefined && { preview_usd: microsToUsd(previewMicros) }),
});

export async function ratesSet(
  tx: Transaction,
  request: SetRatesRequest,
): Promise<Changed<SetRatesResponse>> {
  const { capability, accountId } = request;
  const { unit, before, after, startsAt, version, comingId } = await setRates(tx, request);
  const starts = startsAt?.toISOString();
  return {
    response: { capability, accountId, version, unit, before, after, comingId, startsAt: starts },
    audit: {
      accountId,
      subject: capability,
      before: recorded(before),
      after: { ...recorded(after), ...(starts && { starts_at: starts }) },
    },
  };
}

/** Returns what {@link ratesSet} would answer. @throws ApiError invalid_input, not_found */
export async function previewRates(sql: Sql, { change }: PreviewRatesRequest): Promise<PreviewRatesResponse> {
  if (!change) throw new ApiError('invalid_input', 'A change of rates is needed.');
  const { capability, accountId } = change;
  const { unit, before, after, startsAt } = await planRates(sql, change);
  return { change: { capability, accountId, unit, before, after, startsAt: startsAt?.toISOString() } };
}

export async function ratesReset(
  tx: Transaction,
  request: ResetRatesRequest,
): Promise<Changed<ResetRatesResponse>> {
  const { accountId, capability } = request;
  const { version, before, after } = await resetRates(tx, request);
  return {
    response: { accountId, capability, version, before, after },
    audit: { accountId, subject: capability, before: recorded(before), after: recorded(after) },
  };
}

export async function ratesCancelled(
  tx: Transaction,
  { id }: CancelRatesRequest,
): Promise<Changed<CancelRatesResponse>> {
  const [row] = await tx<ComingRow[]>`delete from rates_to_come where id = ${id} returning *`;
  if (!row) throw new ApiError('not_found', 'There are no rates to come with this id.');
  const cancelled = comingOf(row);
  const { capability, account_id } = row;
  const accountId = account_id ?? undefined;
  const before = { ...recorded(tableOf(row)), starts_at: cancelled.startsAt };
  const audit = { accountId, subject: capability, before, after: { cancelled: Number(id) } };
  return { response: { capability, accountId, cancelled }, audit };
}

/** Lists the rates of every capability, as they count for an account or for everybody. @throws ApiError not_found */
export async function listRates(sql: Sql, { accountId }: ListRatesRequest): Promise<CapabilityRates[]> {
  if (accountId !== undefined) await requireAccount(sql, accountId);
  const coming = await sql<ComingRow[]>`
    select * from rates_to_come where account_id is not distinct from ${accountId ?? null} order by starts_at, id`;
  return Promise.all(
    CAPABILITY_NAMES.map(async (capability) => {
      const [mine, everybodys] = await Promise.all([
        ratesInForce(sql, capability, accountId),
        ratesInForce(sql, capability),
      ]);
      return {
        capability,
        unit: mine.unit,
        version: mine.version,
        effectiveAt: mine.effectiveAt.toISOString(),
        own: mine.own,
        rates: mine.table,
        publicRates: everybodys.table,
        coming: coming.filter((row) => row.capability === capability).map(comingOf),
      };
    }),
  );
}

type ComingRow = RateRow & { readonly id: bigint; readonly starts_at: Date };

function comingOf(row: ComingRow): ComingRates {
  return { id: row.id, startsAt: row.starts_at.toISOString(), rates: tableOf(row) };
}
