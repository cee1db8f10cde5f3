/** Kinds of failure of a request to the Kubernetes API, by what a caller does about them. */
export type KubeErrorCode =
  | 'not_found'
  | 'already_exists'
  | 'conflict'
  /** The server no longer holds the requested resource version: list again. */
  | 'gone'
  /** The server refuses the object: schema, validation rule, or a malformed request. */
  | 'invalid'
  | 'unauthorized'
  | 'forbidden'
  | 'too_many_requests'
  | 'timeout'
  /** There was no answer: connection refused or reset, TLS failure, or a server that is not ready. */
  | 'unavailable'
  | 'internal';

export interface KubeErrorOptions extends ErrorOptions {
  readonly code: KubeErrorCode;
  /** HTTP status, or 0 if there was no answer. */
  readonly status?: number;
  readonly reason?: string;
  readonly retryAfterMs?: number;
}

const RETRYABLE: ReadonlySet<KubeErrorCode> = new Set([
  'too_many_requests',
  'timeout',
  'unavailable',
  'internal',
]);

/**
 * A failed request to the Kubernetes API. `retryable` means that the same request may succeed later. A `conflict`
 * is not retryable, because it needs a fresh read first. A write that failed with a retryable error may have taken
 * effect.
 */
export class KubeError extends Error {
  override readonly name = 'KubeError';
  readonly code: KubeErrorCode;
  readonly status: number;
  /** Reason as the API server names it (`AlreadyExists`, `Expired`, …). Without one: the code. */
  readonly reason: string;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options: KubeErrorOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code;
    this.status = options.status ?? 0;
    this.reason = options.reason ?? options.code;
    this.retryable = RETRYABLE.has(options.code);
    this.retryAfterMs = options.retryAfterMs;
  }
}

export function isKubeError(error: unknown, ...codes: KubeErrorCode[]): error is KubeError {
  return error instanceof KubeError && (codes.length === 0 || codes.includes(error.code));
}

/** `Status` object that the API server answers in place of the requested object. */
interface Status {
  readonly kind?: string;
  readonly message?: string;
  readonly reason?: string;
  readonly code?: number;
  readonly details?: { readonly retryAfterSeconds?: number };
}

/**
 * Converts an answer other than 2xx to an error.
 * @param body text of the answer: a `Status` in JSON, or the text of a proxy
 */
export function errorOfAnswer(
  what: string,
  httpStatus: number,
  body: string,
  retryAfter?: string,
): KubeError {
  const status = parseStatus(body);
  const code = codeOf(httpStatus, status?.reason);
  const seconds = Number(retryAfter ?? status?.details?.retryAfterSeconds ?? Number.NaN);
  return new KubeError(`${what}: ${status?.message ?? (body.slice(0, 200) || `HTTP ${httpStatus}`)}`, {
    code,
    status: httpStatus,
    reason: status?.reason,
    retryAfterMs: Number.isFinite(seconds) ? seconds * 1000 : undefined,
  });
}

/** Converts the `ERROR` event of a watch to an error. */
export function errorOfWatch(what: string, object: unknown): KubeError {
  const status = object as Status;
  const httpStatus = status.code ?? 500;
  return new KubeError(`${what}: ${status.message ?? 'the watch failed'}`, {
    code: codeOf(httpStatus, status.reason),
    status: httpStatus,
    reason: status.reason,
  });
}

function parseStatus(body: string): Status | undefined {
  try {
    const parsed: unknown = JSON.parse(body);
    if (typeof parsed === 'object' && parsed !== null && (parsed as Status).kind === 'Status') return parsed;
  } catch {
    // The body is a proxy's page, or empty.
  }
  return undefined;
}

function codeOf(httpStatus: number, reason: string | undefined): KubeErrorCode {
  if (reason === 'AlreadyExists') return 'already_exists';
  if (reason === 'Expired' || reason === 'Gone') return 'gone';
  switch (httpStatus) {
    case 401:
      return 'unauthorized';
    case 403:
      return 'forbidden';
    case 404:
      return 'not_found';
    case 409:
      return 'conflict';
    case 410:
      return 'gone';
    case 429:
      return 'too_many_requests';
    case 408:
    case 504:
      return 'timeout';
    case 502:
    case 503:
      return 'unavailable';
    default:
      return httpStatus >= 500 ? 'internal' : 'invalid';
  }
}
