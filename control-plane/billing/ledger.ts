import { ApiError } from '@semblance/common/errors';
import type { Micros } from '@semblance/common/money';
import { isPlainText } from '@semblance/common/plain-text';
import { isStorable, type Sql, sqlState, type Transaction, violatedConstraint } from '../storage/sql.ts';

/** Largest top-up, ten million USD; a larger one is more likely a mistake than a payment. */
export const MAX_TOP_UP: Micros = 10_000_000_000_000n;

export interface TopUp {
  readonly accountId: string;
  readonly amountMicros: Micros;
  /** A repeated top-up with the same reference is booked once. */
  readonly reference?: string;
  /** Default: now, by the database's clock. */
  readonly at?: Date;
}

/** Returns whether a text can name a booking. */
export function isReference(text: string): boolean {
  return text.length > 0 && text.length <= 200 && isStorable(text) && isPlainText(text);
}

/**
 * Books incoming money.
 * @returns false when this reference was already booked, with the same amount
 * @throws ApiError not_found, invalid_input
 */
export async function topUp(sql: Sql | Transaction, top: TopUp): Promise<boolean> {
  const { accountId, amountMicros, reference } = top;
  if (amountMicros <= 0n || amountMicros > MAX_TOP_UP)
    throw new ApiError('invalid_input', 'A top-up is more than 0 and at most 10000000 USD.');
  if (reference !== undefined && !isReference(reference))
    throw new ApiError(
      'invalid_input',
      'A reference is 1 to 200 characters, none of them a control character.',
    );
  if (!isStorable(accountId)) throw new ApiError('not_found', 'There is no such account.');
  try {
    const rows = await sql`
      insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, reference, created_at)
      values (${accountId}, 'top_up', 'funding', 'available', ${amountMicros}, ${reference ?? null},
              coalesce(${top.at ?? null}::timestamptz, now()))
      on conflict (account_id, reference) where reference is not null do nothing
      returning id`;
    if (rows.length > 0) return true;
  } catch (error) {
    if (sqlState(error) === '23503') throw new ApiError('not_found', `There is no account ${accountId}.`);
    if (violatedConstraint(error) === 'account_balances_topped_up_micros_check')
      throw new ApiError('invalid_input', 'All top-ups of an account together stay below 9007199254 USD.');
    throw error;
  }
  const [before] = await sql<{ kind: string; amount_micros: bigint }[]>`
    select kind, amount_micros from ledger_transfers
    where account_id = ${accountId} and reference = ${reference ?? null}`;
  if (before?.kind !== 'top_up')
    throw new ApiError('invalid_input', `This reference was booked as a ${before?.kind} before.`);
  if (before.amount_micros !== amountMicros)
    throw new ApiError('invalid_input', 'This reference was booked with another amount before.');
  return false;
}
