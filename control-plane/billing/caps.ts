import { ApiError } from '@semblance/common/errors';
import { type Micros, microsToUsd } from '@semblance/common/money';
import type { CapView } from '@semblance/proto/semblance/control/v1/keys';
import type { Transaction } from '../storage/sql.ts';

const HOLDERS = { account: 'this account', key: 'this key', maker: 'the key that made this one' } as const;

/** A cap that does not leave what is needed, as `cap_state` has it; amounts in JSON are numbers. */
interface CapState {
  readonly holder: keyof typeof HOLDERS;
  readonly period: 'day' | 'month';
  readonly cap_micros: number;
  readonly spent_micros: number;
  readonly held_micros: number;
  /** First day after its period. */
  readonly past: string;
}

/**
 * Returns the refusal of a job or session that a cap does not leave room for.
 * @param detail the `cap_state` as JSON @param need such as `This job needs a hold`
 */
export function capRefusal(detail: string | null, need: string, micros: Micros): ApiError {
  const cap = JSON.parse(detail ?? '') as CapState;
  const usd = (amount: number) => `${microsToUsd(BigInt(amount))} USD`;
  const left = Math.max(0, cap.cap_micros - cap.spent_micros - cap.held_micros);
  return new ApiError(
    'insufficient_balance',
    `The cap of ${HOLDERS[cap.holder]}, ${usd(cap.cap_micros)} a ${cap.period}, leaves ${usd(left)}: ${usd(cap.spent_micros)} are spent and ${usd(cap.held_micros)} are held. ${need} of ${microsToUsd(micros)} USD. The next ${cap.period} begins on ${cap.past}, 00:00 UTC.`,
  );
}

/** A hold, and the cap that leaves least; null: there is none. */
export interface HoldUnderCap {
  readonly hold_micros: bigint;
  readonly cap: string | null;
  readonly cap_room: bigint | null;
}

/** Returns what a hold would be told that a cap does not leave; undefined: it would be placed. */
export function capFault({ hold_micros: hold, cap, cap_room: room }: HoldUnderCap, need: string) {
  if (hold === 0n || room === null || room >= hold) return undefined;
  return capRefusal(cap, need, hold).message;
}

interface CapRow {
  readonly holder: string;
  readonly period: string;
  readonly cap_micros: bigint | null;
  readonly owner_micros: bigint | null;
  readonly own_micros: bigint | null;
  readonly spent_micros: bigint;
  readonly held_micros: bigint;
  readonly past: string;
}

/** Returns what counts toward caps of an account, or of one of its keys, by day and by month, with and without a cap. */
export async function readCaps(
  sql: Transaction,
  of: { readonly accountId: string; readonly keyId?: string },
): Promise<CapView[]> {
  const { accountId, keyId = null } = of;
  const holder = keyId === null ? 'account' : 'key';
  const rows = await sql<CapRow[]>`
    select c.*, c.past::text as past from caps_of(${accountId}, ${keyId}, true) c
    where c.holder = ${holder} order by c.period`;
  return rows.map((row) => ({
    holder: row.holder,
    period: row.period,
    capMicros: row.cap_micros ?? undefined,
    ownerCapMicros: row.owner_micros ?? undefined,
    ownCapMicros: row.own_micros ?? undefined,
    spentMicros: row.spent_micros,
    heldMicros: row.held_micros,
    endsAt: `${row.past}T00:00:00Z`,
  }));
}

/** Most of a cap: as much as is exact as a JSON number. */
const MOST = BigInt(Number.MAX_SAFE_INTEGER);

/**
 * Returns a cap as it is to be stored: undefined stays, null is none.
 * @param micros -1: none @throws ApiError invalid_input
 */
export function checkCap(micros: bigint | undefined): bigint | null | undefined {
  if (micros === undefined) return undefined;
  if (micros === -1n) return null;
  if (micros < 0n || micros > MOST)
    throw new ApiError('invalid_input', 'A cap is an amount from 0 USD, at most six decimals.');
  return micros;
}
