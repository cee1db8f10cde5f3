import { setTimeout as delay } from 'node:timers/promises';
import { type Dispatcher, errors as undiciErrors } from 'undici';
import type { Credentials } from './credentials.ts';
import { errorOfAnswer, KubeError } from './errors.ts';
import { createLimit } from './limit.ts';
import { createLimiter } from './limiter.ts';

export interface TransportOptions {
  readonly credentials: Credentials;
  readonly maxInFlight: number;
  readonly requestTimeoutMs: number;
  readonly userAgent: string;
  /** Number of times a request is repeated after the server said when to retry (429). */
  readonly maxRepeats: number;
  readonly signal?: AbortSignal;
}

export interface KubeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: unknown;
  readonly contentType?: string;
  /** Accepted media type. Default `application/json`: the whole object. */
  readonly accept?: string;
  readonly signal?: AbortSignal;
}

export interface Transport {
  /** Returns the JSON of the answer. @throws KubeError; the signal's reason when it aborted */
  request<T>(request: KubeRequest): Promise<T>;
  /**
   * Yields the body of the answer as it arrives, without a total time limit. Throws KubeError when nothing came for
   * `idleMs`.
   */
  stream(request: KubeRequest, idleMs: number): Promise<AsyncIterable<Uint8Array>>;
  close(): Promise<void>;
}

const MAX_RETRY_AFTER_MS = 5_000;

/**
 * Creates the HTTP transport to the API server, with credentials, pooled connections, limits on time and requests
 * in flight, and errors.
 */
export function createTransport(options: TransportOptions): Transport {
  const limiter = createLimiter(options.maxInFlight);
  const closed = new AbortController();
  const stops = [closed.signal, ...(options.signal ? [options.signal] : [])];

  async function send(request: KubeRequest, signal: AbortSignal, stream?: { idleMs: number }) {
    const label = `${request.method} ${request.path}`;
    try {
      const access = await options.credentials.access();
      const target = new URL(access.server + request.path);
      for (const [name, value] of Object.entries(request.query ?? {})) {
        if (value !== undefined) target.searchParams.set(name, String(value));
      }
      const body = request.body === undefined ? undefined : JSON.stringify(request.body);
      return await (stream ? access.watches : access.requests).request({
        origin: target.origin,
        path: target.pathname + target.search,
        method: request.method,
        headers: {
          ...access.headers,
          accept: request.accept ?? 'application/json',
          'user-agent': options.userAgent,
          ...(body === undefined ? {} : { 'content-type': request.contentType ?? 'application/json' }),
        },
        body,
        signal,
        headersTimeout: options.requestTimeoutMs,
        bodyTimeout: stream ? stream.idleMs : options.requestTimeoutMs,
      });
    } catch (error) {
      throw translate(label, error, signal);
    }
  }

  async function answer<T>(request: KubeRequest, signal: AbortSignal): Promise<T> {
    const label = `${request.method} ${request.path}`;
    for (let repeats = 0; ; repeats++) {
      const response = await send(request, signal);
      const text = await response.body.text().catch((error: unknown) => {
        throw translate(label, error, signal);
      });
      if (response.statusCode < 300) return parse<T>(label, text);
      if (response.statusCode === 401) options.credentials.forget();
      const error = errorOfAnswer(label, response.statusCode, text, headerOf(response, 'retry-after'));
      if (
        error.code !== 'too_many_requests' ||
        error.retryAfterMs === undefined ||
        repeats >= options.maxRepeats
      ) {
        throw error;
      }
      await delay(Math.min(error.retryAfterMs, MAX_RETRY_AFTER_MS), undefined, { signal });
    }
  }

  return {
    async request<T>(request: KubeRequest) {
      const limit = createLimit(request.signal ? [request.signal, ...stops] : stops);
      try {
        return await limiter.run(() => {
          limit.expireIn(options.requestTimeoutMs);
          return answer<T>(request, limit.signal);
        }, limit.signal);
      } finally {
        limit.end();
      }
    },
    async stream(request, idleMs) {
      const signal = AbortSignal.any(request.signal ? [request.signal, ...stops] : stops);
      const response = await send(request, signal, { idleMs });
      const label = `${request.method} ${request.path}`;
      if (response.statusCode < 300) return translated(label, response.body, signal);
      if (response.statusCode === 401) options.credentials.forget();
      const text = await response.body.text().catch(() => '');
      throw errorOfAnswer(label, response.statusCode, text, headerOf(response, 'retry-after'));
    },
    async close() {
      closed.abort(new KubeError('the client is closed', { code: 'unavailable' }));
      await options.credentials.close();
    },
  };
}

async function* translated(what: string, body: AsyncIterable<Uint8Array>, signal: AbortSignal) {
  try {
    yield* body;
  } catch (error) {
    throw translate(what, error, signal);
  }
}

function parse<T>(what: string, text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (error) {
    throw new KubeError(`${what}: the answer is not JSON`, { code: 'unavailable', cause: error });
  }
}

function headerOf(response: Dispatcher.ResponseData, name: string): string | undefined {
  const value = response.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** Converts a failure below HTTP to an error. If the caller aborted, returns the caller's reason unchanged. */
function translate(what: string, error: unknown, signal: AbortSignal): unknown {
  if (error instanceof KubeError) return error;
  if (signal.aborted) {
    const reason: unknown = signal.reason;
    if (!(reason instanceof DOMException && reason.name === 'TimeoutError')) return reason;
    return new KubeError(`${what}: no answer in time`, { code: 'timeout', cause: reason });
  }
  const timedOut =
    error instanceof undiciErrors.HeadersTimeoutError ||
    error instanceof undiciErrors.BodyTimeoutError ||
    error instanceof undiciErrors.ConnectTimeoutError;
  return new KubeError(
    `${what}: ${timedOut ? 'no answer in time' : 'the Kubernetes API cannot be reached'}`,
    {
      code: timedOut ? 'timeout' : 'unavailable',
      cause: error,
    },
  );
}
