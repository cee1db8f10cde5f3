import { isObjectKey } from '#common/objects/store.ts';

/** Whose face a prompt of Live Swap Pro asks for, as far as the control plane must know it. */
export type Look = { readonly kind: 'upload'; readonly fileKey: string } | { readonly kind: 'other' };

/** A file key wherever it stands; not the end of an address or of a longer word. */
const KEY = /(?<![\p{L}\p{N}._~:/\\-])api(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]*)+/u;

/** The upload that a prompt names, if it names one. */
export function readPrompt(prompt: string): Look {
  const fileKey = KEY.exec(prompt)?.[0].replace(/\.+$/, '');
  return fileKey !== undefined && isObjectKey(fileKey) ? { kind: 'upload', fileKey } : { kind: 'other' };
}
