import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Logger } from '@semblance/common/logging';
import { type Dispatcher, request } from 'undici';
import { diskError } from './errors.ts';
import {
  checkedUrl,
  DEFAULT_TRANSFER_LIMITS,
  refusal,
  type TransferLimits,
  transferError,
  watchRate,
  withRetries,
} from './transfer.ts';

/** Destination of an output: a presigned PUT. */
export interface Sink {
  readonly contentType: string;
  readonly url: string;
  /** Headers that the signature covers, sent as given. */
  readonly headers: Readonly<Record<string, string>>;
  readonly key: string;
}

export interface StoreOptions {
  readonly path: string;
  readonly sizeBytes: number;
  readonly sink: Sink;
  readonly dispatcher: Dispatcher;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly limits?: TransferLimits;
  readonly onBytes?: (count: number) => void;
  readonly onRetry?: () => void;
}

/** Returns the SHA-256 of a file in hexadecimal, read as a stream. */
export async function fileSha256(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash, { signal });
  return hash.digest('hex');
}

/**
 * Streams a file to a presigned PUT. Retries 5xx and broken connections from the start, which is harmless: the same
 * bytes go to the same key.
 *
 * @throws AssetError, or the signal's reason
 */
export async function storeOutput(options: StoreOptions): Promise<void> {
  const { sink, signal, logger, limits = DEFAULT_TRANSFER_LIMITS } = options;
  const url = checkedUrl(sink.url);
  await withRetries({
    limits,
    tries: limits.storeTries,
    signal,
    logger,
    doing: 'storing the output',
    onRetry: options.onRetry ?? (() => {}),
    attempt: () => storeOnce(options, url, limits),
  });
}

async function storeOnce(options: StoreOptions, url: URL, limits: TransferLimits): Promise<void> {
  const { path, sink, signal } = options;
  const doing = 'storing the output at';
  const broken = new AbortController();
  const file = createReadStream(path);
  let sent = 0;
  // The client must pull. A `data` listener would read, and lose, the file before there is a connection.
  async function* counted() {
    for await (const chunk of file) {
      sent += chunk.length;
      options.onBytes?.(chunk.length);
      yield chunk;
    }
  }
  // The rate is checked up to the last byte; then the time limit of the headers applies.
  const stopWatching = watchRate(
    limits,
    () => sent,
    () => {
      if (!file.readableEnded) broken.abort(new Error(`slower than ${limits.leastBytesPerSecond} B/s`));
    },
  );
  try {
    const { statusCode, body } = await request(url, {
      method: 'PUT',
      dispatcher: options.dispatcher,
      signal: AbortSignal.any([signal, broken.signal]),
      headers: {
        ...(hasHeader(sink.headers, 'content-type') ? {} : { 'content-type': sink.contentType }),
        ...sink.headers,
        'content-length': String(options.sizeBytes),
      },
      body: Readable.from(counted(), { objectMode: false }),
    });
    body.on('error', () => {});
    await body.dump({ limit: 16_384 }).catch(() => {});
    if (statusCode < 200 || statusCode > 299) throw refusal(doing, url, statusCode);
  } catch (error) {
    const disk = diskError(error, path);
    if (disk !== error) throw disk;
    throw transferError(broken.signal.aborted ? broken.signal.reason : error, doing, url, signal);
  } finally {
    stopWatching();
    file.destroy();
  }
}

function hasHeader(headers: Readonly<Record<string, string>>, name: string): boolean {
  return Object.keys(headers).some((key) => key.toLowerCase() === name);
}
