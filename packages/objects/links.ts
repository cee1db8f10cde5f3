import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { isObjectKey } from '@semblance/common/object-key';
import { isKeyPrefix } from './store.ts';

/** Path at the gateway under which the directory store's objects are served. */
export const FILES_PATH = '/files';

/**
 * Methods of links. `DELETE` and `LIST` are for services of the installation only; nobody else ever gets such a
 * link.
 */
export type LinkMethod = 'GET' | 'PUT' | 'DELETE' | 'LIST';

/** Longest lifetime of links for `DELETE` and `LIST`, in seconds. Such links are made for one request. */
export const LONGEST_INTERNAL_SECONDS = 600;

/** Names of files in links; they need no escape in a header. */
const FILENAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/;

/** Ids of API keys. */
const KEY_ID = /^key-[0-9a-z]{26}$/;

/** What a link permits. A GET link also permits HEAD. */
export interface LinkGrant {
  readonly method: LinkMethod;
  /** Key of the object; LIST: prefix of the keys. */
  readonly key: string;
  /** Expiry in Unix seconds. */
  readonly expires: number;
  /** PUT only: content type of the object, and its largest size in bytes. */
  readonly contentType?: string;
  readonly maxBytes?: number;
  /** GET only: name under which a client saves the file; absent: the end of its key. */
  readonly filename?: string;
  /** GET only: API key with whose revocation the link ends. */
  readonly keyId?: string;
  /** LIST only: the end of the page before; absent for the first page. */
  readonly after?: string;
}

export type LinkVerdict =
  | { readonly ok: true; readonly grant: LinkGrant }
  | { readonly ok: false; readonly reason: 'expired' | 'invalid' };

/** Returns path and query of a link, such as `/files/api/…?expires=…&signature=…`. Deterministic. */
export function signLink(signingKey: Buffer, grant: LinkGrant): string {
  const query = new URLSearchParams({ expires: String(grant.expires) });
  if (grant.method === 'PUT') {
    query.set('content_type', grant.contentType ?? '');
    query.set('max_bytes', String(grant.maxBytes));
  }
  if (grant.method === 'LIST') {
    query.set('prefix', grant.key);
    query.set('after', grant.after ?? '');
  }
  if (grant.filename !== undefined) query.set('filename', grant.filename);
  if (grant.keyId !== undefined) query.set('key', grant.keyId);
  query.set('signature', signatureOf(signingKey, grant).toString('base64url'));
  const path = grant.method === 'LIST' ? FILES_PATH : `${FILES_PATH}/${grant.key}`;
  return `${path}?${query}`;
}

/**
 * Checks a link's signature in constant time, then its expiry.
 *
 * @param method of the request; HEAD counts as GET
 * @param key the path below `/files/`, as received; for LIST the prefix in the query
 */
export function verifyLink(
  signingKey: Buffer,
  method: LinkMethod,
  key: string,
  query: URLSearchParams,
  now: Date = new Date(),
): LinkVerdict {
  const expires = wholeNumber(query.get('expires'));
  const signature = query.get('signature');
  const named = method === 'LIST' ? isKeyPrefix(key) : isObjectKey(key);
  if (!named || expires === undefined || !signature) return { ok: false, reason: 'invalid' };
  let grant: LinkGrant = { method, key, expires };
  if (method === 'PUT') {
    const contentType = query.get('content_type');
    const maxBytes = wholeNumber(query.get('max_bytes'));
    if (!contentType || maxBytes === undefined) return { ok: false, reason: 'invalid' };
    grant = { ...grant, contentType, maxBytes };
  }
  if (method === 'LIST') grant = { ...grant, after: query.get('after') ?? '' };
  const filename = method === 'GET' ? query.get('filename') : null;
  if (filename !== null) {
    if (!FILENAME.test(filename)) return { ok: false, reason: 'invalid' };
    grant = { ...grant, filename };
  }
  const keyId = method === 'GET' ? query.get('key') : null;
  if (keyId !== null) {
    if (!KEY_ID.test(keyId)) return { ok: false, reason: 'invalid' };
    grant = { ...grant, keyId };
  }
  const presented = Buffer.from(signature, 'base64url');
  const expected = signatureOf(signingKey, grant);
  // The encoded forms are compared too, because base64url has spare bits and a link must have only one spelling.
  const same =
    presented.length === expected.length &&
    timingSafeEqual(presented, expected) &&
    signature === expected.toString('base64url');
  if (!same) return { ok: false, reason: 'invalid' };
  if (now.getTime() >= expires * 1000) return { ok: false, reason: 'expired' };
  const internal = method === 'DELETE' || method === 'LIST';
  if (internal && expires * 1000 > now.getTime() + LONGEST_INTERNAL_SECONDS * 1000)
    return { ok: false, reason: 'invalid' };
  return { ok: true, grant };
}

function signatureOf(signingKey: Buffer, grant: LinkGrant): Buffer {
  // A JSON array has one reading, so no two grants share a signed text.
  const text = JSON.stringify([
    'semblance-link-v1',
    grant.method,
    grant.key,
    grant.expires,
    grant.contentType ?? null,
    grant.maxBytes ?? null,
    ...(grant.method === 'LIST' ? [grant.after ?? ''] : []),
    ...(grant.filename === undefined ? [] : ['filename', grant.filename]),
    ...(grant.keyId === undefined ? [] : ['key', grant.keyId]),
  ]);
  return createHmac('sha256', keyObject(signingKey)).update(text).digest();
}

/**
 * Returns the cached key object of a signing key, because creating one costs several times as much as signing with
 * it.
 */
function keyObject(signingKey: Buffer): KeyObject {
  let key = keys.get(signingKey);
  if (!key) {
    key = createSecretKey(signingKey);
    keys.set(signingKey, key);
  }
  return key;
}

const keys = new WeakMap<Buffer, KeyObject>();

function wholeNumber(text: string | null): number | undefined {
  return text !== null && /^(0|[1-9]\d{0,14})$/.test(text) ? Number(text) : undefined;
}
