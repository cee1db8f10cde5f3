/**
 * Rules for what rides with every submit. The gateway checks them first, for the client's sake; the control plane
 * checks them again, since it answers to whoever reaches it.
 */

export const MAX_CALLBACK_URL_LENGTH = 2048;
/** Of a host in the form that DNS has it in (RFC 1035): one of other letters is longer there than as it was written. */
const MAX_HOST_LENGTH = 253;

const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,255}$/;

/** States what an Idempotency-Key must be, to be put after the header's name. */
export const IDEMPOTENCY_KEY_RULE = 'must be 1 to 255 printable ASCII characters';

export function isIdempotencyKey(text: string): boolean {
  return IDEMPOTENCY_KEY.test(text);
}

/**
 * Tells whether text can be a `callback_url`: by its form alone; where it leads is looked at when it is called.
 * @returns what it must be instead, to be put after the field's name, or undefined when it is fine
 */
export function callbackUrlFault(text: string): string | undefined {
  // Before it is parsed: parsing takes as long as the text is.
  if (text.length > MAX_CALLBACK_URL_LENGTH) return `must be at most ${MAX_CALLBACK_URL_LENGTH} characters`;
  const url = text.isWellFormed() && !text.includes('\0') && URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return 'must be an absolute http or https URL';
  if (url.username || url.password) return 'must not carry a user name or password';
  if (url.hostname.length > MAX_HOST_LENGTH)
    return `must have a host of at most ${MAX_HOST_LENGTH} characters`;
  return undefined;
}
