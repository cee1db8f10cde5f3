import { ApiError } from '@semblance/common/errors';
import { type Micros, microsToUsd } from '@semblance/common/money';
import { isPlainText } from '@semblance/common/plain-text';
import { isStorable, sqlState, type Transaction, violatedConstraint } from '../storage/sql.ts';
import { isReference, MAX_TOP_UP } from './ledger.ts';

const MAX_REASON = 500;

/** A change of the books by the owner. */
export interface Adjustment {
  readonly accountId: string;
  /** Of a refund more than 0; of a correction also less than 0, which takes back what a top-up was too large by. */
  readonly amountMicros: Micros;
  /** A repeated adjustment with the same reference is booked once. */
  readonly reference: string;
  readonly reason: string;
  /** Job, session or preview whose charge is given back; undefined: a correction. */
  readonly refundOf?: string | undefined;
  /** Whether a correction may take more than is available, so that the account owes it. */
  readonly intoDebt: boolean;
}

export interface Adjusted {
  readonly kind: 'refund' | 'correction';
  /** False: the reference was booked before, with the same content. */
  readonly booked: boolean;
  readonly before: Micros;
  readonly after: Micros;
}

interface Transfer {
  readonly kind: string;
  readonly amount: bigint;
  readonly refund_of: string | null;
}

/**
 * Books a refund or a correction. The account is locked, so that adjustments of one account, and its holds, are decided
 * one after another.
 * @throws ApiError not_found, invalid_input
 */
export async function adjustAccount(tx: Transaction, asked: Adjustment): Promise<Adjusted> {
  const { accountId, amountMicros, reference, refundOf } = asked;
  checkForm(asked);
  const [balance] = isStorable(accountId)
    ? await tx<{ available: bigint; free: bigint }[]>`
        select available_micros as available, available_micros - reserved_micros as free
        from account_balances where account_id = ${accountId} for no key update`
    : [];
  if (!balance)
    throw new ApiError('not_found', `There is no account ${JSON.stringify(accountId.slice(0, 80))}.`);
  const { available } = balance;
  const kind = refundOf === undefined ? 'correction' : 'refund';
  const [known] = await tx<Transfer[]>`
    select kind, case credit when 'available' then amount_micros else -amount_micros end as amount, refund_of
    from ledger_transfers where account_id = ${accountId} and reference = ${reference}`;
  if (known) {
    if (known.kind !== kind || known.amount !== amountMicros || known.refund_of !== (refundOf ?? null))
      throw new ApiError('invalid_input', 'This reference was booked with other content before.');
    return { kind, booked: false, before: available, after: available };
  }
  if (refundOf !== undefined) await checkRefund(tx, { accountId, amountMicros, refundOf });
  if (kind === 'correction' && !asked.intoDebt && amountMicros < 0n && balance.free < -amountMicros)
    throw new ApiError(
      'invalid_input',
      `${microsToUsd(balance.free)} USD are available, so that this would bring the account below zero; say so if that is meant.`,
    );
  await book(tx, asked, kind);
  return { kind, booked: true, before: available, after: available + amountMicros };
}

/** @throws ApiError invalid_input */
function checkForm({ amountMicros, reference, reason, refundOf }: Adjustment): void {
  const size = amountMicros < 0n ? -amountMicros : amountMicros;
  if (size === 0n || size > MAX_TOP_UP)
    throw new ApiError('invalid_input', 'An adjustment is more than 0 and at most 10000000 USD.');
  if (!isReference(reference))
    throw new ApiError(
      'invalid_input',
      'An adjustment has a reference of 1 to 200 characters, none of them a control character.',
    );
  if (reason.trim() === '' || reason.length > MAX_REASON || !isStorable(reason) || !isPlainText(reason))
    throw new ApiError(
      'invalid_input',
      `An adjustment has a reason of 1 to ${MAX_REASON} characters, none of them a control character.`,
    );
  if (refundOf !== undefined && amountMicros < 0n)
    throw new ApiError('invalid_input', 'A refund is more than 0.');
}

/** @throws ApiError not_found, invalid_input */
async function checkRefund(
  tx: Transaction,
  { accountId, amountMicros, refundOf }: { accountId: string; amountMicros: Micros; refundOf: string },
): Promise<void> {
  const [charge] = isStorable(refundOf)
    ? await tx<{ charged: bigint; refunded: bigint }[]>`
        select c.charged_micros as charged,
               coalesce((select sum(t.amount_micros) from ledger_transfers t where t.refund_of = ${refundOf}), 0)::bigint as refunded
        from charge_of(${accountId}, ${refundOf}) c`
    : [];
  const named = JSON.stringify(refundOf.slice(0, 80));
  if (!charge)
    throw new ApiError('not_found', `This account has no job, session or preview ${named} that was charged.`);
  const { charged, refunded } = charge;
  if (amountMicros > charged - refunded) {
    const before = refunded > 0n ? `, of which ${microsToUsd(refunded)} USD were given back` : '';
    throw new ApiError('invalid_input', `${named} was charged ${microsToUsd(charged)} USD${before}.`);
  }
}

async function book(
  tx: Transaction,
  { accountId, amountMicros, reference, reason, refundOf }: Adjustment,
  kind: Adjusted['kind'],
): Promise<void> {
  const source = kind === 'refund' ? 'revenue' : 'funding';
  const [debit, credit] = amountMicros > 0n ? [source, 'available'] : ['available', source];
  try {
    await tx`
      insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, reference, refund_of, reason)
      values (${accountId}, ${kind}, ${debit}, ${credit}, ${amountMicros < 0n ? -amountMicros : amountMicros}, ${reference},
              ${refundOf ?? null}, ${reason.trim()})`;
  } catch (error) {
    if (violatedConstraint(error) === 'account_balances_topped_up_micros_check')
      throw new ApiError(
        'invalid_input',
        'All top-ups of an account together are at least 0 and stay below 9007199254 USD.',
      );
    // A top-up with this reference was committed since it was looked for.
    if (sqlState(error) === '23505')
      throw new ApiError('invalid_input', 'This reference was booked with other content before.');
    throw error;
  }
}
