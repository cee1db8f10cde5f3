import { ApiError } from '@semblance/common/errors';
import { MOMENT_RULE, parseMoment } from '@semblance/common/moment';
import { isScope, SCOPES } from '@semblance/common/scopes';
import type { KeyRules } from '@semblance/proto/semblance/control/v1/keys';
import { checkCap } from '../billing/caps.ts';
import { timestampOf } from '../storage/moments.ts';
import { parseRanges } from './address-ranges.ts';

/** A hundred years, in microseconds. */
const MOST_MICROS = 36_525n * 86_400_000_000n;

/** Checked rules of a key. What is undefined is not to be set; null: none. */
export interface RuleChanges {
  readonly scopes: readonly string[] | undefined;
  /** As the database takes it. */
  readonly expiresAt: string | null | undefined;
  /** Networks in their usual form. */
  readonly ranges: readonly string[] | null | undefined;
  /** Micro-dollars. */
  readonly capDay: bigint | null | undefined;
  readonly capMonth: bigint | null | undefined;
}

/** @throws ApiError invalid_input for the first fault */
export function checkRules(rules: KeyRules | undefined): RuleChanges {
  return {
    scopes: scopesIn(rules?.scopes ?? []),
    expiresAt: expiryIn(rules?.expiresAt),
    ranges: rangesIn(rules?.allowedAddresses?.ranges),
    capDay: checkCap(rules?.capDayMicros),
    capMonth: checkCap(rules?.capMonthMicros),
  };
}

function scopesIn(scopes: readonly string[]): readonly string[] | undefined {
  if (scopes.length === 0) return undefined;
  const unknown = scopes.find((scope) => !isScope(scope));
  if (unknown !== undefined)
    throw invalid(
      `A scope is one of ${SCOPES.join(', ')}, not ${JSON.stringify(unknown.slice(0, 40).toWellFormed())}.`,
    );
  return SCOPES.filter((scope) => scopes.includes(scope));
}

function expiryIn(text: string | undefined): string | null | undefined {
  if (text === undefined) return undefined;
  if (text === '') return null;
  const micros = parseMoment(text);
  if (micros === undefined) throw invalid(`The end of a key ${MOMENT_RULE}.`);
  const now = BigInt(Date.now()) * 1_000n;
  if (micros <= now) throw invalid('The end of a key is in the future. Revoke the key to end it now.');
  if (micros > now + MOST_MICROS) throw invalid('The end of a key is at most a hundred years away.');
  return timestampOf(micros);
}

function rangesIn(texts: readonly string[] | undefined): readonly string[] | null | undefined {
  if (texts === undefined) return undefined;
  if (texts.length === 0) return null;
  try {
    return parseRanges(texts);
  } catch (error) {
    if (error instanceof RangeError) throw invalid(`The list of a key’s addresses ${error.message}.`);
    throw error;
  }
}

function invalid(message: string): ApiError {
  return new ApiError('invalid_input', message);
}
