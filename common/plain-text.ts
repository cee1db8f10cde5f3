/**
 * Characters that do something to a terminal instead of being shown in their place: controls (C0, DEL, C1), separators
 * of lines and paragraphs, and marks that turn the direction of what follows.
 */
const COMMANDING = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** True for text in one line that is shown as it is. */
export function isPlainText(text: string): boolean {
  return text.search(COMMANDING) < 0;
}

/** The text with all such characters written as `\u001b`, which within JSON means the same. */
export function escapeCommanding(text: string): string {
  return text.replace(COMMANDING, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
