import type { Readable } from 'node:stream';
import { isObjectKey } from '@semblance/common/object-key';

export class ObjectNotFoundError extends Error {
  override readonly name = 'ObjectNotFoundError';
  readonly code = 'object_not_found';
  readonly retryable = false;
}

export interface ObjectInfo {
  readonly sizeBytes: number;
  readonly contentType: string;
}

/** An object in a list. */
export interface StoredObject {
  readonly key: string;
  readonly sizeBytes: number;
  readonly storedAt: Date;
}

export interface SignedLinkOptions {
  /** Lifetime, counted from `signedAt`. */
  readonly expiresInSeconds: number;
  /** Time of the signature; the same time gives the same link. Default: now. */
  readonly signedAt?: Date;
  /** Users of the link: outside clients, or agents inside the cluster. Default: `public`. */
  readonly audience?: 'public' | 'internal';
  /** GET only: name under which a client saves the file, of [A-Za-z0-9._-]. Default: the end of its key. */
  readonly filename?: string;
  /**
   * GET only: API key that asks for the link, with whose revocation it ends. A bucket cannot do that: its links last
   * for their lifetime.
   */
  readonly keyId?: string;
}

export interface SignedPut {
  readonly url: string;
  /** Headers covered by the signature, to be sent as given. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Storage of inputs and outputs. Keys are `/`-separated names of [A-Za-z0-9._-] without `..`. All stores (an S3
 * API, a directory served by the gateway, that directory over HTTP) pass the same conformance tests.
 */
export interface ObjectStore {
  /**
   * Stores a stream under a key and replaces the former object. The new object is visible only when it is complete.
   * Memory is bounded for any length. When the source fails or the signal aborts, nothing is stored.
   */
  put(
    key: string,
    source: Readable,
    options: { contentType: string; signal?: AbortSignal },
  ): Promise<{ sizeBytes: number }>;
  /** @throws ObjectNotFoundError */
  info(key: string): Promise<ObjectInfo>;
  /** Returns the bytes of an object, to be read to their end or destroyed. @throws ObjectNotFoundError */
  read(key: string): Promise<Readable>;
  /** Idempotent: deleting a missing object succeeds. */
  delete(key: string): Promise<void>;
  /**
   * Yields every object whose key begins with the prefix, in no order, read step by step. Objects that are stored
   * or deleted meanwhile may or may not be among them.
   */
  list(prefix: string): AsyncIterable<StoredObject>;
  signGet(key: string, options: SignedLinkOptions): Promise<string>;
  signPut(
    key: string,
    options: SignedLinkOptions & { contentType: string; maxBytes: number },
  ): Promise<SignedPut>;
}

/** The store cannot be reached, or does not do as asked; another try may succeed. */
export class ObjectStoreError extends Error {
  override readonly name = 'ObjectStoreError';
  readonly code = 'object_store_unavailable';
  readonly retryable = true;
}

/** The reason why a store is unusable, for the person who set it up. */
export class StoreFault extends ObjectStoreError {
  /**
   * Whether the store refuses the credentials. Only other credentials help, and a process reads them at its start.
   */
  readonly refused: boolean;

  constructor(message: string, options: ErrorOptions & { refused?: boolean } = {}) {
    super(message, options);
    this.refused = options.refused ?? false;
  }
}

/** @throws RangeError */
export function checkKey(key: string): void {
  if (!isObjectKey(key)) throw new RangeError('not an object key');
}

const PREFIX = /^[A-Za-z0-9._/-]{0,512}$/;

/** Returns whether keys can begin with this text. */
export function isKeyPrefix(prefix: string): boolean {
  return PREFIX.test(prefix);
}
