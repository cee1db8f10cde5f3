/**
 * Error codes that callers branch on. `ApiErrorCode` is the public set of the v1 API, which fixes the HTTP status
 * of each code. Between services a code travels as gRPC trailing metadata (see common/grpc).
 */
const API_ERRORS = {
  unauthorized: { http: 401, retryable: false },
  forbidden: { http: 403, retryable: false },
  insufficient_balance: { http: 402, retryable: false },
  invalid_input: { http: 400, retryable: false },
  unsupported_format: { http: 400, retryable: false },
  input_too_large: { http: 400, retryable: false },
  capability_unavailable: { http: 400, retryable: false },
  not_found: { http: 404, retryable: false },
  rate_limited: { http: 429, retryable: true },
  at_capacity: { http: 429, retryable: true },
  capacity_unavailable: { http: 502, retryable: true },
  capacity_warming: { http: 502, retryable: true },
  internal_error: { http: 500, retryable: true },
} as const;

export type ApiErrorCode = keyof typeof API_ERRORS;

export const API_ERROR_CODES = Object.keys(API_ERRORS) as [ApiErrorCode, ...ApiErrorCode[]];

/** Returns the HTTP status that the API fixes for a code. `internal_error` also occurs with 502. */
export function httpStatusOf(code: ApiErrorCode): number {
  return API_ERRORS[code].http;
}

export function isApiErrorCode(value: unknown): value is ApiErrorCode {
  return typeof value === 'string' && Object.hasOwn(API_ERRORS, value);
}

export interface ApiErrorOptions extends ErrorOptions {
  /** Whether a service behind the answering one failed. Then the status of `internal_error` is 502, otherwise 500. */
  readonly upstream?: boolean;
  /** Time after which the call may succeed, in seconds, where it is known. */
  readonly retryAfterSeconds?: number | undefined;
}

/** An error that the caller of the API sees. `message` is written for that caller and contains no internals. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: ApiErrorCode;
  readonly httpStatus: number;
  readonly retryable: boolean;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ApiErrorCode, message: string, options: ApiErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.httpStatus = code === 'internal_error' && options.upstream ? 502 : API_ERRORS[code].http;
    this.retryable = API_ERRORS[code].retryable;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** Returns the message of anything thrown, with its causes, for logs and conditions. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const own = error.message || error.name;
  return error.cause === undefined ? own : `${own}: ${describeError(error.cause)}`;
}
