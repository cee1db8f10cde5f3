import { type Readable, Transform } from 'node:stream';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import {
  isObjectKey,
  type ObjectInfo,
  ObjectNotFoundError,
  type ObjectStore,
  type SignedLinkOptions,
  type SignedPut,
} from './store.ts';

/** Two parts in flight and one being filled bound an upload's memory at about 24 MiB. */
const PART_BYTES = 8 * 1024 * 1024;
const PARTS_IN_FLIGHT = 2;

export interface S3StoreOptions {
  readonly bucket: string;
  /** Put before every key. */
  readonly prefix?: string;
  readonly region: string;
  readonly endpoint?: string;
  /** Endpoint in links for clients outside, where they cannot reach `endpoint`. */
  readonly publicEndpoint?: string;
  readonly forcePathStyle?: boolean;
}

/**
 * Objects in a bucket of anything that speaks the S3 API. Credentials come from the environment, as the AWS SDK finds
 * them. A presigned PUT fixes the content type; that API cannot bound its length, so `maxBytes` is for the writer to
 * keep.
 */
export class S3Store implements ObjectStore {
  readonly #options: S3StoreOptions;
  readonly #client: S3Client;
  readonly #publicSigner: S3Client;

  constructor(options: S3StoreOptions) {
    this.#options = options;
    this.#client = clientFor(options, options.endpoint);
    this.#publicSigner = options.publicEndpoint ? clientFor(options, options.publicEndpoint) : this.#client;
  }

  async put(key: string, source: Readable, options: { contentType: string; signal?: AbortSignal }) {
    const place = this.#place(key);
    const { contentType, signal } = options;
    signal?.throwIfAborted();
    let sizeBytes = 0;
    const counter = new Transform({
      readableHighWaterMark: 1024 * 1024,
      transform(chunk: Buffer, _encoding, done) {
        sizeBytes += chunk.length;
        done(null, chunk);
      },
    });
    const upload = new Upload({
      client: this.#client,
      params: { ...place, Body: counter, ContentType: contentType },
      partSize: PART_BYTES,
      queueSize: PARTS_IN_FLIGHT,
    });
    const stop = (reason: Error) => {
      source.destroy();
      counter.destroy(reason);
      // Ends a request that no longer waits for bytes; the parts already stored are deleted by the SDK.
      upload.abort().catch(() => {});
    };
    const onAbort = () => stop(signal?.reason as Error);
    signal?.addEventListener('abort', onAbort, { once: true });
    let failure: Error | undefined;
    source.on('error', (error) => {
      failure = error;
      counter.destroy(error);
    });
    source.on('close', () => {
      if (!source.readableEnded && !counter.destroyed) {
        failure ??= new Error('the source ended before its end');
        counter.destroy(failure);
      }
    });
    counter.on('error', () => {});
    source.pipe(counter);
    try {
      if (source.errored) throw source.errored;
      await upload.done();
      return { sizeBytes };
    } catch (error) {
      stop(error as Error);
      signal?.throwIfAborted();
      throw failure ?? error;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  async info(key: string): Promise<ObjectInfo> {
    try {
      const head = await this.#client.send(new HeadObjectCommand(this.#place(key)));
      return {
        sizeBytes: head.ContentLength ?? 0,
        contentType: head.ContentType ?? 'application/octet-stream',
      };
    } catch (error) {
      if (error instanceof S3ServiceException && error.$metadata.httpStatusCode === 404)
        throw new ObjectNotFoundError(`nothing is stored under ${key}`, { cause: error });
      throw error;
    }
  }

  async delete(key: string): Promise<void> {
    await this.#client.send(new DeleteObjectCommand(this.#place(key)));
  }

  async signGet(key: string, options: SignedLinkOptions): Promise<string> {
    return getSignedUrl(this.#signer(options), new GetObjectCommand(this.#place(key)), lifetimeOf(options));
  }

  async signPut(
    key: string,
    options: SignedLinkOptions & { contentType: string; maxBytes: number },
  ): Promise<SignedPut> {
    const { contentType } = options;
    const command = new PutObjectCommand({ ...this.#place(key), ContentType: contentType });
    const url = await getSignedUrl(this.#signer(options), command, {
      ...lifetimeOf(options),
      signableHeaders: new Set(['content-type']),
    });
    return { url, headers: { 'content-type': contentType } };
  }

  async close(): Promise<void> {
    this.#client.destroy();
    this.#publicSigner.destroy();
  }

  #signer({ audience = 'public' }: SignedLinkOptions): S3Client {
    return audience === 'public' ? this.#publicSigner : this.#client;
  }

  #place(key: string): { Bucket: string; Key: string } {
    if (!isObjectKey(key)) throw new RangeError('not an object key');
    return { Bucket: this.#options.bucket, Key: (this.#options.prefix ?? '') + key };
  }
}

function clientFor(options: S3StoreOptions, endpoint: string | undefined): S3Client {
  return new S3Client({
    region: options.region,
    ...(endpoint ? { endpoint } : {}),
    forcePathStyle: options.forcePathStyle ?? false,
    // Checksums beyond what the API requires would be signed into links and are unknown to many servers.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    maxAttempts: 3,
  });
}

function lifetimeOf({ expiresInSeconds, signedAt }: SignedLinkOptions) {
  return { expiresIn: expiresInSeconds, ...(signedAt ? { signingDate: signedAt } : {}) };
}
