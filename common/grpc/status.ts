import { Metadata, type ServiceError, StatusBuilder, type StatusObject, status } from '@grpc/grpc-js';
import { ApiError, type ApiErrorCode, isApiErrorCode } from '../errors.ts';

/** Key of the trailing metadata that carries the API error code of a refused call. */
export const CODE_KEY = 'semblance-code';
/** Key of the trailing metadata that says after how many seconds a refused call may succeed. */
const RETRY_AFTER_KEY = 'semblance-retry-after';
/** Key of the metadata that carries the request id from the edge through every service. */
export const REQUEST_ID_KEY = 'request-id';

const GRPC_STATUS: Record<ApiErrorCode, status> = {
  unauthorized: status.UNAUTHENTICATED,
  forbidden: status.PERMISSION_DENIED,
  insufficient_balance: status.FAILED_PRECONDITION,
  invalid_input: status.INVALID_ARGUMENT,
  unsupported_format: status.INVALID_ARGUMENT,
  input_too_large: status.INVALID_ARGUMENT,
  capability_unavailable: status.FAILED_PRECONDITION,
  not_found: status.NOT_FOUND,
  rate_limited: status.RESOURCE_EXHAUSTED,
  at_capacity: status.RESOURCE_EXHAUSTED,
  capacity_unavailable: status.UNAVAILABLE,
  capacity_warming: status.UNAVAILABLE,
  internal_error: status.INTERNAL,
};

/** Returns the gRPC status that a server answers for an ApiError. The code is added to the given trailers. */
export function toStatus(error: ApiError, trailers: Metadata = new Metadata()): Partial<StatusObject> {
  trailers.set(CODE_KEY, error.code);
  if (error.retryAfterSeconds !== undefined) trailers.set(RETRY_AFTER_KEY, String(error.retryAfterSeconds));
  return new StatusBuilder()
    .withCode(GRPC_STATUS[error.code])
    .withDetails(error.message)
    .withMetadata(trailers)
    .build();
}

/**
 * Converts a failed call to an error for the API's caller: the refusal that the server sent, or an `internal_error`
 * (502) if the server was unreachable, too slow or failed.
 */
export function fromServiceError(error: ServiceError): ApiError {
  const code = error.metadata?.get(CODE_KEY)[0];
  if (isApiErrorCode(code)) {
    const seconds = Number(error.metadata.get(RETRY_AFTER_KEY)[0] ?? Number.NaN);
    const retryAfterSeconds = Number.isInteger(seconds) && seconds > 0 ? seconds : undefined;
    return new ApiError(code, error.details, { cause: error, upstream: true, retryAfterSeconds });
  }
  return new ApiError(
    'internal_error',
    'A service behind the gateway did not answer. Nothing is billed; try again.',
    {
      cause: error,
      upstream: true,
    },
  );
}
