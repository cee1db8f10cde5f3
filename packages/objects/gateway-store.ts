import { Readable, type Writable } from 'node:stream';
import type { ReadableStream } from 'node:stream/web';
import { z } from 'zod';
import { DamagedObjectError } from './footer.ts';
import { type Answer, HttpExchange } from './http-exchange.ts';
import { LinkSigner } from './link-signer.ts';
import { type LinkGrant, LONGEST_INTERNAL_SECONDS, signLink } from './links.ts';
import { OBJECT_STATE } from './object-state.ts';
import {
  checkKey,
  isKeyPrefix,
  type ObjectInfo,
  ObjectNotFoundError,
  type ObjectStore,
  ObjectStoreError,
  type StoredObject,
} from './store.ts';

/**
 * Lifetime of links that this store follows itself, in seconds: enough for one request, and for clocks that differ
 * by minutes.
 */
const OWN_LINK_SECONDS = LONGEST_INTERNAL_SECONDS / 2;
/** Longest time in which an object is read, in ms. */
const READ_MS = 3_600_000;
/** Largest object of an S3 API, in bytes; this interface has no limit of its own. */
const MAX_BYTES = 5 * 2 ** 40;

const page = z.object({
  objects: z.array(
    z.object({ key: z.string(), size_bytes: z.number().int().nonnegative(), stored_at: z.iso.datetime() }),
  ),
  next: z.string().min(1).optional(),
});

export interface GatewayStoreOptions {
  /** Origin at which this process reaches the gateway. */
  readonly url: string;
  /** The signing key of the gateway. */
  readonly signingKey: Buffer;
  /** Origin at which clients reach the gateway. */
  readonly publicUrl: string;
  /** Origin at which agents reach the gateway. Default: `url`. */
  readonly internalUrl?: string | undefined;
  /** Longest silence of the gateway, or of a source that is sent, in ms. Default: 30 s. */
  readonly idleMs?: number;
}

/**
 * The directory store of a gateway, for a process that does not share its folder. Every use is a request with a
 * link signed here. Failed requests are not repeated here; callers do so, by `retryable`.
 */
export class GatewayStore extends LinkSigner implements ObjectStore {
  readonly #options: GatewayStoreOptions;
  readonly #http: HttpExchange;

  constructor(options: GatewayStoreOptions) {
    const { signingKey, publicUrl, internalUrl = options.url } = options;
    super({ signingKey, publicUrl, internalUrl });
    this.#options = options;
    this.#http = new HttpExchange({ origin: options.url, idleMs: options.idleMs ?? 30_000 });
  }

  /** @throws ObjectStoreError, the error of the source, or the signal's reason */
  async put(key: string, source: Readable, options: { contentType: string; signal?: AbortSignal }) {
    checkKey(key);
    const { contentType, signal } = options;
    signal?.throwIfAborted();
    const link = this.#link({ method: 'PUT', key, contentType, maxBytes: MAX_BYTES });
    const counted = { sizeBytes: 0 };
    try {
      const answer = await this.#http.send('PUT', link, {
        headers: { 'content-type': contentType },
        signal,
        write: (request, failed) => sendAll(source, request, counted, failed),
      });
      if (answer.status !== 200 || stateOf(answer) !== 'stored') throw this.#refusal('store', key, answer);
      return counted;
    } catch (error) {
      source.destroy();
      throw error;
    }
  }

  async info(key: string): Promise<ObjectInfo> {
    checkKey(key);
    const answer = await this.#http.send('HEAD', this.#link({ method: 'GET', key }));
    const { 'content-length': length, 'content-type': contentType } = answer.headers;
    if (answer.status !== 200 || stateOf(answer) !== 'stored' || length === undefined || !contentType)
      throw this.#refusal('read', key, answer);
    return { sizeBytes: Number(length), contentType };
  }

  async read(key: string): Promise<Readable> {
    // Only an answer without the bytes says what is under a key.
    await this.info(key);
    const address = this.#options.url + this.#link({ method: 'GET', key });
    const answer = await fetch(address, { signal: AbortSignal.timeout(READ_MS) }).catch((cause: unknown) => {
      throw new ObjectStoreError(`the gateway at ${this.#options.url} does not answer`, { cause });
    });
    if (answer.status !== 200) {
      await answer.body?.cancel();
      throw new ObjectStoreError(
        `the gateway at ${this.#options.url} did not give ${key}: HTTP ${answer.status}`,
      );
    }
    return answer.body ? Readable.fromWeb(answer.body as ReadableStream<Uint8Array>) : Readable.from([]);
  }

  async delete(key: string): Promise<void> {
    checkKey(key);
    const answer = await this.#http.send('DELETE', this.#link({ method: 'DELETE', key }));
    if (answer.status !== 204 || stateOf(answer) !== 'absent') throw this.#refusal('delete', key, answer);
  }

  /** Lists page by page, in short requests, so that the gateway may restart between two of them. */
  async *list(prefix: string): AsyncGenerator<StoredObject> {
    if (!isKeyPrefix(prefix)) throw new RangeError('no key of an object begins so');
    let after: string | undefined;
    do {
      const answer = await this.#http.send('GET', this.#link({ method: 'LIST', key: prefix, after }));
      if (answer.status !== 200) throw this.#refusal('list', `${prefix}…`, answer);
      const { objects, next } = this.#page(answer);
      for (const { key, size_bytes: sizeBytes, stored_at: storedAt } of objects)
        yield { key, sizeBytes, storedAt: new Date(storedAt) };
      after = next;
    } while (after !== undefined);
  }

  async close(): Promise<void> {
    this.#http.close();
  }

  #link(grant: Omit<LinkGrant, 'expires'>): string {
    const expires = Math.floor(Date.now() / 1000) + OWN_LINK_SECONDS;
    return signLink(this.#options.signingKey, { ...grant, expires });
  }

  #page(answer: Answer) {
    try {
      return page.parse(JSON.parse(answer.body));
    } catch (cause) {
      throw new ObjectStoreError(`${this.#options.url} did not answer with a list of objects`, { cause });
    }
  }

  /**
   * Returns the error for a refusal. Only the gateway's answer about the object is final; other answers at that
   * address may change.
   */
  #refusal(what: string, key: string, answer: Answer): Error {
    const state = stateOf(answer);
    if (state === 'absent') return new ObjectNotFoundError(`nothing is stored under ${key}`);
    if (state === 'damaged') return new DamagedObjectError(`what is stored under ${key} is damaged`);
    const { url } = this.#options;
    if (answer.status === 403)
      return new ObjectStoreError(
        `the gateway at ${url} refused a link: its SEMBLANCE_OBJECTS_SIGNING_KEY is another, or the clocks differ by minutes`,
      );
    if (answer.status >= 500)
      return new ObjectStoreError(`the gateway at ${url} could not ${what} ${key}: HTTP ${answer.status}`);
    return new ObjectStoreError(
      `${url} answered HTTP ${answer.status}, not as a gateway does that serves a directory of objects`,
    );
  }
}

/** Sends a source without `pipeline`, which would fail the request with the error of the source and the reverse. */
function sendAll(
  source: Readable,
  request: Writable,
  counted: { sizeBytes: number },
  failed: (error: Error) => void,
): void {
  const brokenOff = () => failed(source.errored ?? new Error('the source ended before its end'));
  source.on('error', failed);
  if (source.destroyed) {
    brokenOff();
    return;
  }
  source.on('close', () => !source.readableEnded && brokenOff());
  source.on('data', (chunk: Buffer) => {
    counted.sizeBytes += chunk.length;
  });
  source.pipe(request);
}

function stateOf(answer: Answer): string | undefined {
  return answer.headers[OBJECT_STATE.toLowerCase()] as string | undefined;
}
