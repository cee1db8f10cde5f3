/**
 * Matches characters that control a terminal instead of being shown: controls (C0, DEL, C1), line and paragraph
 * separators, and marks that change the text direction.
 */
const COMMANDING = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Tells whether the text is one line that a terminal shows as it is. */
export function isPlainText(text: string): boolean {
  return text.search(COMMANDING) < 0;
}

/** Returns the text with all such characters escaped as `\u001b`, which means the same within JSON. */
export function escapeCommanding(text: string): string {
  return text.replace(COMMANDING, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Returns the text, cut to `length` characters with an ellipsis. */
export function clip(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}
