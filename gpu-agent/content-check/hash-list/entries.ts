import type { Fingerprint } from './fingerprints.ts';
import { PDQ_DIGITS, pdqDistance } from './pdq.ts';

/** One line of a list: `sha256 <64 digits>` or `pdq <64 digits>`, and an optional note. */
export type ListEntry =
  | { readonly kind: 'sha256'; readonly hash: string }
  | { readonly kind: 'pdq'; readonly bits: Uint8Array };

/** Least PDQ quality of a picture that is compared; hashes of poorer pictures match by chance. */
export const LEAST_QUALITY = 50;

const SHA256_DIGITS = 64;

/** @throws Error saying what is wrong */
export function parseEntry(line: string): ListEntry {
  const [kind, digits = ''] = line.split(/\s+/);
  if (kind !== 'sha256' && kind !== 'pdq') throw new Error('an entry begins with sha256 or pdq');
  const length = kind === 'pdq' ? PDQ_DIGITS : SHA256_DIGITS;
  if (digits.length !== length || !/^[0-9a-f]+$/i.test(digits)) {
    throw new Error(`${kind} is followed by ${length} hexadecimal digits`);
  }
  if (kind === 'sha256') return { kind, hash: digits.toLowerCase() };
  return { kind, bits: Buffer.from(digits, 'hex') };
}

/** Tells whether an entry matches the fingerprint, mirrored or not. */
export function matches(entries: readonly ListEntry[], seen: Fingerprint, distance: number): boolean {
  if (seen[0].quality < LEAST_QUALITY) return false;
  return entries.some(
    (entry) => entry.kind === 'pdq' && seen.some(({ bits }) => pdqDistance(bits, entry.bits) <= distance),
  );
}
