import { ApiError } from '@semblance/common/errors';
import type { Rate } from '@semblance/proto/semblance/admin/v1/admin';

/** A size that a capability is priced by: a parameter and its value. */
export interface PricedSize {
  readonly parameter: string;
  readonly value: string;
}

/**
 * Returns the rates in force with `changes` made to them: each replaces the rate with the same `when`, or is added.
 * Rates by size come first, from small to large; the one without a condition is last.
 * @param whole the rates that are not among `changes` go
 * @param sizes from small to large; empty: the capability has one rate
 * @throws ApiError invalid_input
 */
export function mergeRates(
  inForce: readonly Rate[],
  changes: readonly Rate[],
  { whole, sizes }: { readonly whole: boolean; readonly sizes: readonly PricedSize[] },
): Rate[] {
  const changed = new Map<number, Rate>();
  for (const rate of changes) {
    const place = placeOf(rate, sizes);
    if (place === undefined) throw new ApiError('invalid_input', wrongCondition(rate, sizes));
    if (changed.has(place)) throw new ApiError('invalid_input', `Two rates have ${conditionText(rate)}.`);
    changed.set(place, rate);
  }
  const kept = whole
    ? []
    : inForce
        .map((rate) => [placeOf(rate, sizes), rate] as const)
        // A rate with a condition that no submit fulfils any more.
        .filter((entry): entry is [number, Rate] => entry[0] !== undefined);
  const merged = new Map([...kept, ...changed]);
  if (!merged.has(sizes.length))
    throw new ApiError('invalid_input', 'One rate needs an empty `when`: the rate of everything else.');
  return [...merged].sort(([a], [b]) => a - b).map(([, rate]) => rate);
}

/** Returns the place of a rate: that of its size, or the last; undefined when no submit can fulfil its condition. */
function placeOf({ when }: Rate, sizes: readonly PricedSize[]): number | undefined {
  const conditions = Object.entries(when);
  if (conditions.length === 0) return sizes.length;
  const [[parameter, value] = []] = conditions;
  const place = sizes.findIndex((size) => size.parameter === parameter && size.value === value);
  return conditions.length === 1 && place >= 0 ? place : undefined;
}

function conditionText({ when }: Rate): string {
  const conditions = Object.entries(when);
  return conditions.length === 0
    ? 'an empty `when`'
    : conditions
        .map(([parameter, value]) => `${parameter} ${value}`)
        .join(' and ')
        .slice(0, 120);
}

function wrongCondition(rate: Rate, sizes: readonly PricedSize[]): string {
  const [first] = sizes;
  return first
    ? `No rate can have ${conditionText(rate)}: the price goes by ${first.parameter}, ${sizes.map(({ value }) => value).join(', ')}.`
    : `No rate can have ${conditionText(rate)}: the capability has one rate.`;
}
