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
