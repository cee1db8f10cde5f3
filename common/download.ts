import { constants } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { describeError } from './errors.ts';

export interface DownloadOptions {
  /** Longest time until the server answers, in ms. */
  readonly connectMs: number;
  /** Longest time without a byte, in ms. */
  readonly stallMs: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** Receives the bytes that are there, and how many there will be (0: the server does not say). */
  readonly onBytes?: (bytes: number, total: number) => void;
}

/** A server does not answer, or answers without the file. */
export class DownloadError extends Error {
  override readonly name = 'DownloadError';
  /** Status of the answer; undefined when there was none or it broke off. */
  readonly status: number | undefined;

  constructor(message: string, status?: number, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/**
 * Downloads the missing rest of a file, or all of it when the server knows no ranges. Nothing is verified. Processes
 * that download the same file to the same path at once write the same bytes to the same places.
 * @param path names one content, as by its hash
 * @throws DownloadError, or the signal's reason
 */
export async function downloadRest(url: string, path: string, options: DownloadOptions): Promise<void> {
  const { stallMs, signal, onBytes } = options;
  const before = await stat(path).then(
    ({ size }) => size,
    () => 0,
  );
  const stall = new AbortController();
  const limits = AbortSignal.any([stall.signal, ...(signal ? [signal] : [])]);
  const response = await getUrl(url, {
    ...options,
    signal: limits,
    headers: { ...options.headers, ...(before > 0 ? { Range: `bytes=${before}-` } : {}) },
  });
  // The file is already complete; its checksum decides.
  if (response.status === 416) return void (await response.body?.cancel());
  if (!response.ok || !response.body) {
    await response.body?.cancel();
    throw new DownloadError(`${url} answers ${response.status}`, response.status);
  }
  const resumed = response.status === 206;
  // The file is never cut: another process may be writing it, and the name of `path` stands for one content.
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT);
  let bytes = resumed ? before : 0;
  const rest = Number(response.headers.get('content-length') ?? 0);
  const total = rest > 0 ? bytes + rest : 0;
  const timer = setTimeout(
    () => stall.abort(new DownloadError(`${url}: nothing came for ${stallMs / 1000} s`)),
    stallMs,
  );
  try {
    for await (const chunk of response.body) {
      timer.refresh();
      await file.write(chunk, 0, chunk.length, bytes);
      bytes += chunk.length;
      onBytes?.(bytes, total);
    }
  } catch (error) {
    throw asDownloadError(url, error, signal);
  } finally {
    clearTimeout(timer);
    await file.close();
  }
}

/** Sends a request and waits for the head of the answer. @throws DownloadError, or the signal's reason */
export async function getUrl(
  url: string,
  { connectMs, headers = {}, signal }: Pick<DownloadOptions, 'connectMs' | 'headers' | 'signal'>,
): Promise<Response> {
  const connecting = new AbortController();
  const timer = setTimeout(
    () => connecting.abort(new DownloadError(`${url} does not answer within ${connectMs / 1000} s`)),
    connectMs,
  );
  try {
    const limits = AbortSignal.any([connecting.signal, ...(signal ? [signal] : [])]);
    return await fetch(url, { headers, signal: limits });
  } catch (error) {
    throw asDownloadError(url, connecting.signal.aborted ? connecting.signal.reason : error, signal);
  } finally {
    clearTimeout(timer);
  }
}

function asDownloadError(url: string, error: unknown, signal: AbortSignal | undefined): unknown {
  if (error instanceof DownloadError) return error;
  if (signal?.aborted) return signal.reason;
  return new DownloadError(`cannot download ${url}: ${describeError(error)}`, undefined, { cause: error });
}
