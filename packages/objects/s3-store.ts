import { type Readable, Transform } from 'node:stream';
import type { S3Client } from '@aws-sdk/client-s3';
import { isObjectKey } from '@semblance/common/object-key';
import { describeS3Fault } from './s3-faults.ts';
import {
  type ObjectInfo,
  ObjectNotFoundError,
  type ObjectStore,
  type SignedLinkOptions,
  type SignedPut,
  type StoredObject,
} from './store.ts';

/** Bytes of a part. Two parts in flight and one being filled limit an upload's memory to about 24 MiB. */
const PART_BYTES = 8 * 1024 * 1024;
const PARTS_IN_FLIGHT = 2;

/**
 * Loads the SDK on first use, because it is larger than anything else in the services, and most of them use a
 * directory store.
 */
async function loadSdk() {
  const [s3, { Upload }, { getSignedUrl }] = await Promise.all([
    import('@aws-sdk/client-s3'),
    import('@aws-sdk/lib-storage'),
    import('@aws-sdk/s3-request-presigner'),
  ]);
  return { ...s3, Upload, getSignedUrl };
}

type Sdk = Awaited<ReturnType<typeof loadSdk>>;

export interface S3StoreOptions {
  readonly bucket: string;
  /** Prefix of every key. */
  readonly prefix?: string;
  readonly region: string;
  readonly endpoint?: string;
  /** Endpoint in links for outside clients, when they cannot reach `endpoint`. */
  readonly publicEndpoint?: string;
  readonly forcePathStyle?: boolean;
}

/**
 * Stores objects in a bucket of any server with the S3 API. Credentials come from the environment, as the AWS SDK
 * finds them. A presigned PUT fixes the content type; the API cannot limit its length, so the writer must respect
 * `maxBytes`.
 */
export class S3Store implements ObjectStore {
  readonly #options: S3StoreOptions;
  #opened: ReturnType<typeof connect> | undefined;

  constructor(options: S3StoreOptions) {
    this.#options = options;
  }

  async put(key: string, source: Readable, options: { contentType: string; signal?: AbortSignal }) {
    const place = this.#place(key);
    const { contentType, signal } = options;
    signal?.throwIfAborted();
    // An error of the source while the SDK loads must not be unhandled.
    source.on('error', () => {});
    const { sdk, client } = await this.#open();
    let sizeBytes = 0;
    const counter = new Transform({
      readableHighWaterMark: 1024 * 1024,
      transform(chunk: Buffer, _encoding, done) {
        sizeBytes += chunk.length;
        done(null, chunk);
      },
    });
    const upload = new sdk.Upload({
      client,
      params: { ...place, Body: counter, ContentType: contentType },
      partSize: PART_BYTES,
      queueSize: PARTS_IN_FLIGHT,
    });
    const stop = (reason: Error) => {
      source.destroy();
      counter.destroy(reason);
      // This ends a request that waits for no more bytes; the SDK deletes the stored parts.
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
    const place = this.#place(key);
    const { sdk, client } = await this.#open();
    try {
      const head = await client.send(new sdk.HeadObjectCommand(place));
      return {
        sizeBytes: head.ContentLength ?? 0,
        contentType: head.ContentType ?? 'application/octet-stream',
      };
    } catch (error) {
      if (error instanceof sdk.S3ServiceException && error.$metadata.httpStatusCode === 404)
        throw new ObjectNotFoundError(`nothing is stored under ${key}`, { cause: error });
      throw error;
    }
  }

  async read(key: string): Promise<Readable> {
    const place = this.#place(key);
    const { sdk, client } = await this.#open();
    try {
      const { Body } = await client.send(new sdk.GetObjectCommand(place));
      // In Node.js the SDK gives the stream of the answer.
      return Body as Readable;
    } catch (error) {
      if (error instanceof sdk.S3ServiceException && error.$metadata.httpStatusCode === 404)
        throw new ObjectNotFoundError(`nothing is stored under ${key}`, { cause: error });
      throw error;
    }
  }

  async delete(key: string): Promise<void> {
    const place = this.#place(key);
    const { sdk, client } = await this.#open();
    await client.send(new sdk.DeleteObjectCommand(place));
  }

  async *list(prefix: string): AsyncGenerator<StoredObject> {
    const own = this.#options.prefix ?? '';
    const { sdk, client } = await this.#open();
    const pages = sdk.paginateListObjectsV2(
      { client },
      { Bucket: this.#options.bucket, Prefix: own + prefix },
    );
    for await (const { Contents = [] } of pages) {
      for (const { Key, Size = 0, LastModified } of Contents) {
        const key = Key?.slice(own.length);
        // The bucket may have other content under this prefix, without a key of the store.
        if (key === undefined || !isObjectKey(key) || !LastModified) continue;
        yield { key, sizeBytes: Size, storedAt: LastModified };
      }
    }
  }

  async signGet(key: string, options: SignedLinkOptions): Promise<string> {
    const place = this.#place(key);
    const opened = await this.#open();
    const { filename } = options;
    const command = new opened.sdk.GetObjectCommand({
      ...place,
      ...(filename !== undefined && { ResponseContentDisposition: `inline; filename="${filename}"` }),
    });
    return opened.sdk.getSignedUrl(signerOf(opened, options), command, lifetimeOf(options));
  }

  async signPut(
    key: string,
    options: SignedLinkOptions & { contentType: string; maxBytes: number },
  ): Promise<SignedPut> {
    const { contentType } = options;
    const place = this.#place(key);
    const opened = await this.#open();
    const command = new opened.sdk.PutObjectCommand({ ...place, ContentType: contentType });
    const url = await opened.sdk.getSignedUrl(signerOf(opened, options), command, {
      ...lifetimeOf(options),
      signableHeaders: new Set(['content-type']),
    });
    return { url, headers: { 'content-type': contentType } };
  }

  /**
   * Asks the bucket for the name of one object.
   * @param answerMs longest wait, in ms
   * @throws StoreFault with the remedy
   */
  async check(signal: AbortSignal, answerMs: number): Promise<void> {
    const { bucket, prefix = '' } = this.#options;
    const { sdk, client } = await this.#open();
    const question = new sdk.ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, MaxKeys: 1 });
    // Loading the SDK takes time of its own, so the limit begins here.
    const late = AbortSignal.timeout(answerMs);
    try {
      await client.send(question, { abortSignal: AbortSignal.any([signal, late]) });
    } catch (error) {
      throw describeS3Fault(
        late.aborted ? new Error(`no answer within ${answerMs} ms`) : error,
        this.#options,
      );
    }
  }

  async close(): Promise<void> {
    const opened = await this.#opened;
    opened?.client.destroy();
    opened?.publicSigner.destroy();
  }

  #open() {
    this.#opened ??= connect(this.#options);
    return this.#opened;
  }

  #place(key: string): { Bucket: string; Key: string } {
    if (!isObjectKey(key)) throw new RangeError('not an object key');
    return { Bucket: this.#options.bucket, Key: (this.#options.prefix ?? '') + key };
  }
}

async function connect(options: S3StoreOptions) {
  const sdk = await loadSdk();
  const client = clientFor(sdk, options, options.endpoint);
  const publicSigner = options.publicEndpoint ? clientFor(sdk, options, options.publicEndpoint) : client;
  return { sdk, client, publicSigner };
}

function signerOf(opened: Awaited<ReturnType<typeof connect>>, { audience = 'public' }: SignedLinkOptions) {
  return audience === 'public' ? opened.publicSigner : opened.client;
}

function clientFor(sdk: Sdk, options: S3StoreOptions, endpoint: string | undefined): S3Client {
  return new sdk.S3Client({
    region: options.region,
    ...(endpoint ? { endpoint } : {}),
    forcePathStyle: options.forcePathStyle ?? false,
    // Checksums beyond the API's requirements would be signed into links, and many servers do not know them.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    maxAttempts: 3,
  });
}

function lifetimeOf({ expiresInSeconds, signedAt }: SignedLinkOptions) {
  return { expiresIn: expiresInSeconds, ...(signedAt ? { signingDate: signedAt } : {}) };
}
