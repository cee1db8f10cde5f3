const KEY = /^[A-Za-z0-9_-][A-Za-z0-9._-]*(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/;

/** Tells whether the text is a key of an object: at most 512 characters, in parts with a slash between them. */
export function isObjectKey(key: string): boolean {
  return key.length <= 512 && KEY.test(key);
}
