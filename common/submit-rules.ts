/**
 * Longest `callback_url`, in characters. The gateway checks the rules of this module first, for the client's sake.
 * The control plane checks them again, because it answers anyone who reaches it.
 */

export const MAX_CALLBACK_URL_LENGTH = 2048;
/** Longest host in its DNS form (RFC 1035), in characters. A host with non-ASCII letters is longer in that form. */
const MAX_HOST_LENGTH = 253;

const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,255}$/;

/** Rule for an Idempotency-Key, worded to follow the header's name. */
export const IDEMPOTENCY_KEY_RULE = 'must be 1 to 255 printable ASCII characters';

export function isIdempotencyKey(text: string): boolean {
  return IDEMPOTENCY_KEY.test(text);
}

/**
 * Checks the form of a `callback_url`. Its target is checked when it is called.
 * @returns what it must be instead, worded to follow the field's name, or undefined when it is fine
 */
export function callbackUrlFault(text: string): string | undefined {
  // The length is checked first because the time for parsing grows with the length.
  if (text.length > MAX_CALLBACK_URL_LENGTH) return `must be at most ${MAX_CALLBACK_URL_LENGTH} characters`;
  const url = text.isWellFormed() && !text.includes('\0') && URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return 'must be an absolute http or https URL';
  if (url.username || url.password) return 'must not carry a user name or password';
  if (url.hostname.length > MAX_HOST_LENGTH)
    return `must have a host of at most ${MAX_HOST_LENGTH} characters`;
  return undefined;
}

export const MAX_METADATA_ENTRIES = 16;
export const MAX_METADATA_VALUE = 256;
/** Most bytes of all names and values together, in UTF-8. */
export const MAX_METADATA_BYTES = 4_096;
/** Name of an entry. It has no colon, so that `name:value` is unambiguous, and never is `__proto__`. */
export const METADATA_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$/;

/** @returns what `metadata` must be instead, worded to follow the field's name, or undefined when it is fine */
export function metadataFault(metadata: Readonly<Record<string, string>>): string | undefined {
  const entries = Object.entries(metadata);
  if (entries.length > MAX_METADATA_ENTRIES) return `must have at most ${MAX_METADATA_ENTRIES} entries`;
  let bytes = 0;
  for (const [name, value] of entries) {
    if (!METADATA_NAME.test(name))
      return 'has a name that is not 1 to 40 letters, digits, ".", "_" and "-", the first a letter or a digit';
    if ([...value].length > MAX_METADATA_VALUE)
      return `must have values of at most ${MAX_METADATA_VALUE} characters`;
    if (!value.isWellFormed() || value.includes('\0'))
      return 'must have values that are well-formed Unicode text';
    bytes += Buffer.byteLength(name) + Buffer.byteLength(value);
  }
  if (bytes > MAX_METADATA_BYTES)
    return `must have at most ${MAX_METADATA_BYTES.toLocaleString('en')} bytes in its names and values together`;
  return undefined;
}

/** Longest `expires_in`, in seconds: ten years. */
export const MAX_EXPIRES_IN = 315_360_000;
/** Rule for `expires_in`, worded to follow the field's name. */
export const EXPIRES_IN_RULE = `must be a whole number of seconds from 1 to ${MAX_EXPIRES_IN}`;

export function isExpiresIn(seconds: number): boolean {
  return Number.isInteger(seconds) && seconds >= 1 && seconds <= MAX_EXPIRES_IN;
}
