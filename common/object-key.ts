const KEY = /^[A-Za-z0-9_-][A-Za-z0-9._-]*(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/;

/** Tells whether the text is an object key: at most 512 characters, in parts separated by slashes. */
export function isObjectKey(key: string): boolean {
  return key.length <= 512 && KEY.test(key);
}
