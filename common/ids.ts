import { randomBytes } from 'node:crypto';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

/**
 * Returns a new identifier: `prefix` and 26 characters, which hold 48 bits of Unix milliseconds and 80 random bits
 * in Crockford's base 32 (a ULID in lower case). It sorts by time, and is a valid Kubernetes name if the prefix is.
 */
export function newId(prefix: string): string {
  return encoded(prefix, (BigInt(Date.now()) << 80n) | BigInt(`0x${randomBytes(10).toString('hex')}`));
}

/** Returns the least identifier of a moment: those made from then on sort after it. @param ms Unix milliseconds */
export function idAt(prefix: string, ms: number): string {
  return encoded(prefix, BigInt(Math.min(Math.max(0, Math.floor(ms)), 2 ** 48 - 1)) << 80n);
}

function encoded(prefix: string, number: bigint): string {
  let value = number;
  let text = '';
  for (let i = 0; i < 26; i++) {
    text = ALPHABET[Number(value & 31n)] + text;
    value >>= 5n;
  }
  return prefix + text;
}

/** Returns a secret of 32 random bytes in base64url, after a prefix that secret scanners can find. */
export function newSecret(prefix: string): string {
  return prefix + randomBytes(32).toString('base64url');
}
