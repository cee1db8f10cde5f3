import { newId } from '@semblance/common/ids';

const SESSION_ID = /^ses-[0-9a-hjkmnp-tv-z]{26}$/;

/** Returns a new session's id, which is also the name of its LiveSession. */
export function newSessionId(): string {
  return newId('ses-');
}

/** Returns true for text that can be a session's id; other text needs no lookup. */
export function isSessionId(text: string): boolean {
  return SESSION_ID.test(text);
}
