import { newId } from '@semblance/common/ids';

const SESSION_ID = /^ses-[0-9a-hjkmnp-tv-z]{26}$/;

/** A new session's id; also the name of its LiveSession. */
export function newSessionId(): string {
  return newId('ses-');
}

/** True for text that could be a session's id; nothing else needs to be looked up. */
export function isSessionId(text: string): boolean {
  return SESSION_ID.test(text);
}
