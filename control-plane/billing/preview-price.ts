import { ApiError } from '@semblance/common/errors';
import { newId } from '@semblance/common/ids';
import type { Logger } from '@semblance/common/logging';
import { type Micros, microsToUsd } from '@semblance/common/money';
import { NoConnectionError, type Sql, StorageError, sqlState } from '../storage/sql.ts';
import { capRefusal } from './caps.ts';

/** Who pays for a frame preview, and of which capability it is. */
export interface Previewed {
  readonly accountId: string;
  /** Whose caps count. */
  readonly keyId?: string | undefined;
  readonly capability: string;
}

/** What a preview costs, agreed before it is made. */
export interface PreviewQuote extends Previewed {
  /** 0: it is free. */
  readonly micros: Micros;
  readonly rateVersion: bigint;
}

interface Outcome {
  readonly outcome: string;
  readonly detail: string | null;
  readonly micros: bigint;
  readonly rate_version: bigint;
}

/**
 * Returns what a preview would cost, if the account can pay it now. Holds nothing: an account has one preview under way
 * for each control plane, so little work is lost when its money is spent meanwhile.
 * @throws ApiError insufficient_balance
 */
export async function quotePreview(sql: Sql, previewed: Previewed): Promise<PreviewQuote> {
  const { accountId, keyId, capability } = previewed;
  const [quote] = await sql<Outcome[]>`
    select * from quote_preview(${accountId}, ${capability}, ${keyId ?? null})`;
  if (!quote) throw new Error('a preview has no quote');
  refuseUnpaid(quote);
  return { ...previewed, micros: quote.micros, rateVersion: quote.rate_version };
}

/**
 * Charges a preview that is there to be delivered. When the database takes the charge and does not say so, it is asked
 * again under the same id; when it stays silent, the preview is delivered, so that nobody pays for what they do not get.
 * @returns what was charged
 * @throws ApiError insufficient_balance, internal_error; nothing is charged then
 */
export async function chargePreview(sql: Sql, quote: PreviewQuote, logger: Logger): Promise<Micros> {
  const { accountId, keyId, capability, micros, rateVersion } = quote;
  if (micros === 0n) return 0n;
  const id = newId('prev-');
  const charge = async () => {
    const [charged] = await sql<Outcome[]>`
      select * from charge_preview(${id}, ${accountId}, ${capability}, ${keyId ?? null}, ${rateVersion})`;
    if (!charged) throw new Error('the charge of a preview has no outcome');
    refuseUnpaid(charged);
    return charged.micros;
  };
  try {
    return await charge();
  } catch (error) {
    if (!isUnknown(error)) throw error;
  }
  try {
    return await charge();
  } catch (error) {
    if (error instanceof ApiError && error.code === 'insufficient_balance') throw error;
    logger.warn({ id, accountId }, `whether a preview was charged is not known: ${error}`);
    return 0n;
  }
}

/** Whether a statement may have taken effect although it failed. */
const isUnknown = (error: unknown) =>
  error instanceof StorageError && !(error instanceof NoConnectionError) && sqlState(error) === undefined;

/** @throws ApiError insufficient_balance */
function refuseUnpaid({ outcome, detail, micros }: Outcome): void {
  if (outcome === 'capped') throw capRefusal(detail, 'This preview needs a charge', micros);
  if (outcome === 'insufficient_balance')
    throw new ApiError(
      'insufficient_balance',
      `This preview costs ${microsToUsd(micros)} USD; ${microsToUsd(BigInt(detail ?? 0))} USD are available (available_usd of GET /balance).`,
    );
}
