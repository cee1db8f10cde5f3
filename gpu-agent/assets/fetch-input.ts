import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Logger } from '@semblance/common/logging';
import { type Dispatcher, request } from 'undici';
import { AssetError, diskError } from './errors.ts';
import {
  checkedUrl,
  DEFAULT_TRANSFER_LIMITS,
  refusal,
  type TransferLimits,
  transferError,
  watchRate,
  withRetries,
} from './transfer.ts';

export interface FetchOptions {
  readonly url: string;
  /** Path of the file to create; it must not exist. */
  readonly path: string;
  /** Largest size in bytes; a larger object is `input_too_large`. */
  readonly maxBytes: number;
  /** Name of the object in messages, such as `input image`. */
  readonly what: string;
  /** Its key, for messages. */
  readonly key?: string | undefined;
  readonly dispatcher: Dispatcher;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly limits?: TransferLimits;
  /** Called with the number of bytes as they arrive. */
  readonly onBytes?: (count: number) => void;
  readonly onRetry?: () => void;
}

/** The part of an object that is on disk, and how to request the rest of the same object. */
interface Partial {
  bytes: number;
  /** Strong ETag of the object, when the server supports ranges. */
  etag: string | undefined;
}

/**
 * Streams an object to a file. Retries broken connections and 5xx. A retry continues at the break when the server
 * honours Range and the object is unchanged.
 *
 * @returns size of the file in bytes
 * @throws AssetError, or the signal's reason
 */
export async function fetchInput(options: FetchOptions): Promise<number> {
  const { signal, logger, what, limits = DEFAULT_TRANSFER_LIMITS } = options;
  const url = checkedUrl(options.url);
  const partial: Partial = { bytes: 0, etag: undefined };
  await withRetries({
    limits,
    tries: limits.tries,
    signal,
    logger,
    doing: `fetching ${what}`,
    onRetry: options.onRetry ?? (() => {}),
    attempt: () => fetchOnce(options, url, partial, limits),
  });
  return partial.bytes;
}

async function fetchOnce(options: FetchOptions, url: URL, partial: Partial, limits: TransferLimits) {
  const { path, what, signal } = options;
  const doing = `fetching ${what} from`;
  const resuming = partial.bytes > 0 && partial.etag !== undefined;
  const broken = new AbortController();
  const either = AbortSignal.any([signal, broken.signal]);
  try {
    const response = await request(url, {
      dispatcher: options.dispatcher,
      signal: either,
      headers: {
        // A store that compresses in transit would change the meaning of sizes and ranges.
        'accept-encoding': 'identity',
        ...(resuming ? { range: `bytes=${partial.bytes}-`, 'if-range': partial.etag } : {}),
      },
    });
    const { statusCode, headers, body } = response;
    body.on('error', () => {});
    if (statusCode === 206 || statusCode === 416) {
      const from = resuming && statusCode === 206 ? rangeStart(headers['content-range']) : undefined;
      if (from !== partial.bytes) {
        await discard(body);
        partial.bytes = 0;
        partial.etag = undefined;
        throw new AssetError('transfer_failed', `${doing} ${url.host}: the rest cannot be had`, {
          retryable: true,
        });
      }
    } else if (statusCode === 200) {
      partial.bytes = 0;
    } else {
      if (statusCode === 404 && (await saysNoObject(body))) throw missing(options);
      await discard(body);
      throw refusal(doing, url, statusCode);
    }
    partial.etag = resumable(headers);

    const length = contentLength(headers['content-length']);
    if (length !== undefined && partial.bytes + length > options.maxBytes) {
      body.destroy();
      throw tooLarge(options, partial.bytes + length);
    }
    const end = length === undefined ? undefined : partial.bytes + length;
    const base = partial.bytes;
    let arrived = base;
    const count = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        arrived += chunk.length;
        if (arrived > options.maxBytes) return done(tooLarge(options));
        options.onBytes?.(chunk.length);
        done(null, chunk);
      },
    });
    const file = createWriteStream(path, {
      flags: base > 0 ? 'r+' : 'w',
      mode: 0o600,
      start: base,
    });
    // Only written bytes count, because a chunk that is on its way to a faulty disk is lost.
    const written = () => base + file.bytesWritten;
    const stopWatching = watchRate(limits, written, () =>
      broken.abort(new Error(`slower than ${limits.leastBytesPerSecond} B/s`)),
    );
    try {
      await pipeline(body, count, file, { signal: either });
    } finally {
      stopWatching();
      // A pending write would corrupt the file of the next try.
      if (!file.closed) await once(file, 'close').catch(() => {});
      partial.bytes = written();
    }
    if (end !== undefined && partial.bytes !== end) {
      throw new Error(`the body ended after ${partial.bytes} of ${end} bytes`);
    }
  } catch (error) {
    const disk = diskError(error, path);
    if (disk !== error) throw disk;
    throw transferError(broken.signal.aborted ? broken.signal.reason : error, doing, url, signal);
  }
}

function tooLarge(options: FetchOptions, size?: number): AssetError {
  const found = size === undefined ? `more than ${options.maxBytes}` : `${size}`;
  return new AssetError(
    'input_too_large',
    `The ${options.what} has ${found} bytes; at most ${options.maxBytes} are taken.`,
  );
}

function missing({ what, key }: FetchOptions): AssetError {
  const where = key === undefined ? '' : `: nothing is stored under ${key}`;
  return new AssetError('input_missing', `The ${what} does not exist${where}.`);
}

/** Longest answer that is searched for the code of a store, in bytes. */
const MAX_ANSWER_BYTES = 16_384;

/**
 * Tells whether an answer with 404 is one of a store: S3 says `NoSuchKey` in XML, the gateway `not_found` in JSON. What
 * stands before a store, such as an ingress without a backend, answers 404 too, and may have the object a moment later.
 */
async function saysNoObject(body: Dispatcher.ResponseData['body']): Promise<boolean> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) return false;
  }
  const text = Buffer.concat(chunks).toString();
  return /<Code>NoSuchKey<\/Code>|"code"\s*:\s*"not_found"/.test(text);
}

/** Reads a short error answer so that its connection can be reused; breaks off a long one. */
async function discard(body: Dispatcher.ResponseData['body']): Promise<void> {
  await body.dump({ limit: 16_384 }).catch(() => {});
}

/** Returns the first byte of `bytes 100-199/200`; undefined for any other text. */
function rangeStart(header: string | string[] | undefined): number | undefined {
  const match = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(String(header ?? ''));
  return match ? Number(match[1]) : undefined;
}

function contentLength(header: string | string[] | undefined): number | undefined {
  return typeof header === 'string' && /^\d+$/.test(header) ? Number(header) : undefined;
}

/** Returns a strong ETag. Without one, the rest of the file could belong to another object. */
function resumable(headers: Dispatcher.ResponseData['headers']): string | undefined {
  const { etag } = headers;
  const ranges = headers['accept-ranges'] === 'bytes' || headers['content-range'] !== undefined;
  return ranges && typeof etag === 'string' && etag.startsWith('"') ? etag : undefined;
}
