import { ApiError } from '@semblance/common/errors';
import type { GatewayContext } from './context.ts';

/** `at_capacity` passes as soon as some work ends. */
export const AT_CAPACITY_RETRY_SECONDS = 2;

/** The one shape of every error, whatever raised it. */
export function envelope(code: string, message: string): string {
  return JSON.stringify({ error: { code, message } });
}

/** Makes anything thrown an ApiError; what is not one already becomes `internal_error` (500) without its internals. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError('internal_error', 'The gateway failed. Nothing is billed; try again.', {
    cause: error,
  });
}

/** @param status default: the one the API fixes for the code */
export function answerError(ctx: GatewayContext, error: ApiError, status = error.httpStatus): void {
  ctx.state.errorCode = error.code;
  ctx.status = status;
  ctx.body = envelope(error.code, error.message);
  ctx.type = 'application/json';
  if (error.code === 'at_capacity') ctx.set('Retry-After', String(AT_CAPACITY_RETRY_SECONDS));
  // HTTP asks of every 401 to say how one authenticates.
  if (status === 401) ctx.set('WWW-Authenticate', 'Bearer');
}

/** An ApiError answered with a status of its own: file links and preconditions are outside the v1 table. */
export class StatusError extends ApiError {
  readonly status: number;

  constructor(status: number, code: ConstructorParameters<typeof ApiError>[0], message: string) {
    super(code, message);
    this.status = status;
  }
}
