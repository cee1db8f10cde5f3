/**
 * An amount in micro-dollars (1 USD = 1,000,000), as a bigint. All code uses it, except where people and JSON read
 * USD numbers.
 */
export type Micros = bigint;

const MICROS_PER_USD = 1_000_000n;

/** Largest amount that is exact as a JSON number: 2^53 − 1 micro-dollars, about 9 billion USD. */
const MAX_EXACT = BigInt(Number.MAX_SAFE_INTEGER);

/**
 * Converts micro-dollars to the JSON number of USD in the API's answers.
 * @throws RangeError when the amount is too large to be exact.
 */
export function microsToUsd(micros: Micros): number {
  if (micros > MAX_EXACT || micros < -MAX_EXACT)
    throw new RangeError(`amount ${micros} is too large for JSON`);
  return Number(micros) / 1_000_000;
}

/**
 * Converts a decimal USD amount such as `12`, `0.05` or `1.000001` to micro-dollars. Amounts with more than six
 * decimals are refused and not rounded, because the ledger cannot hold them.
 * @throws RangeError when the text is no such amount.
 */
export function parseUsd(text: string): Micros {
  const match = /^(-?)(\d{1,10})(?:\.(\d{1,6}))?$/.exec(text.trim());
  if (!match) throw new RangeError(`"${text}" is not an amount in USD with at most six decimals`);
  const [, sign, whole = '0', fraction = ''] = match;
  const micros = BigInt(whole) * MICROS_PER_USD + BigInt(fraction.padEnd(6, '0'));
  return sign ? -micros : micros;
}
