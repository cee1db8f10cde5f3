import { ApiError } from '@semblance/common/errors';
import { isPlainText } from '@semblance/common/plain-text';

/** Metadata of AdminService in which the caller states who it is, percent-encoded. */
export const ACTOR_KEY = 'semblance-actor';

/**
 * @returns the name stated, at most 200 characters; `unknown` when none was
 * @throws ApiError invalid_input when it holds what a terminal would obey: whoever reads the audit sees what is there
 */
export function actorFrom(sent: string): string {
  let name = sent;
  try {
    name = decodeURIComponent(sent);
  } catch {
    // Not percent-encoded: taken as it came.
  }
  name = name.trim();
  if (!isPlainText(name))
    throw new ApiError('invalid_input', 'The name of who asks (--actor) has no control characters.');
  return name.slice(0, 200).toWellFormed() || 'unknown';
}
