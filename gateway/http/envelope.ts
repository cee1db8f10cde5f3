import { ApiError } from '@semblance/common/errors';
import type { GatewayContext } from './context.ts';

/** Retry-After in seconds where no other is known, short because `at_capacity` passes as soon as some work ends. */
export const AT_CAPACITY_RETRY_SECONDS = 2;

/** Returns the body of every error. */
export function envelope(code: string, message: string): string {
  return JSON.stringify({ error: { code, message } });
}

/** Converts any thrown value into an ApiError; unknown ones become `internal_error` (500) without their details. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError('internal_error', 'The gateway failed. Nothing is billed; try again.', {
    cause: error,
  });
}

/** @param status default: the API's status of the code */
export function answerError(ctx: GatewayContext, error: ApiError, status = error.httpStatus): void {
  ctx.state.errorCode = error.code;
  ctx.status = status;
  ctx.body = envelope(error.code, error.message);
  ctx.type = 'application/json';
  if (error.code === 'at_capacity')
    ctx.set('Retry-After', String(error.retryAfterSeconds ?? AT_CAPACITY_RETRY_SECONDS));
  // HTTP requires every 401 to say how to authenticate.
  if (status === 401) ctx.set('WWW-Authenticate', 'Bearer');
}

/** An ApiError with a status of its own, because file links and preconditions are not in the v1 table. */
export class StatusError extends ApiError {
  readonly status: number;

  constructor(status: number, code: ConstructorParameters<typeof ApiError>[0], message: string) {
    super(code, message);
    this.status = status;
  }
}
