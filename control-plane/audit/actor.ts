import { ApiError } from '@semblance/common/errors';
import { isPlainText } from '@semblance/common/plain-text';

/** Metadata of AdminService with the caller's stated name, percent-encoded. */
export const ACTOR_KEY = 'semblance-actor';

/**
 * @returns the stated name, at most 200 characters; `unknown` when there is none
 * @throws ApiError invalid_input when it contains terminal control characters, so that the audit shows exactly what
 * is stored
 */
export function actorFrom(sent: string): string {
  let name = sent;
  try {
    name = decodeURIComponent(sent);
  } catch {
    // It is not percent-encoded and is taken as it came.
  }
  name = name.trim();
  if (!isPlainText(name))
    throw new ApiError('invalid_input', 'The name of who asks (--actor) has no control characters.');
  return name.slice(0, 200).toWellFormed() || 'unknown';
}
