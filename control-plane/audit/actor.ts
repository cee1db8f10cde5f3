/** Metadata of AdminService in which the caller states who it is, percent-encoded. */
export const ACTOR_KEY = 'semblance-actor';

/** @returns the name stated, at most 200 characters; `unknown` when none was */
export function actorFrom(sent: string): string {
  let name = sent;
  try {
    name = decodeURIComponent(sent);
  } catch {
    // Not percent-encoded: taken as it came.
  }
  return name.replaceAll('\0', '').toWellFormed().trim().slice(0, 200) || 'unknown';
}
