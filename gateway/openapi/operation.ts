import type { ApiErrorCode } from '@semblance/common/errors';
import type { z } from 'zod';
import type { Handler } from '../http/context.ts';

/** A successful answer of an operation. */
export interface Answer {
  readonly status: number;
  readonly description: string;
  /** Media type. Default: `application/json` with a schema, none without. */
  readonly type?: string;
  readonly schema?: z.ZodType;
  readonly example?: unknown;
  /** Names from `RESPONSE_HEADERS` (parts.ts) besides those that every answer has. */
  readonly headers?: readonly string[];
}

export interface RequestBody {
  /** Media type. */
  readonly type: string;
  /** States what clients send: its input side is documented. */
  readonly schema: z.ZodType;
  readonly example?: unknown;
  /** Tells whether it may be left out. Default: it may not. */
  readonly optional?: boolean;
}

/**
 * Holds what the OpenAPI document says of a route. It is declared beside the handler, with the very schemas that the
 * handler checks by, and is the only place where the route is documented for machines.
 */
export interface Operation {
  /** operationId, in camelCase. */
  readonly id: string;
  readonly tag: 'Uploads' | 'Jobs' | 'Sessions' | 'Account' | 'Files' | 'Service';
  readonly summary: string;
  readonly description?: string;
  /**
   * Tells whether a bearer key is asked for. With one come the errors and headers of authentication and of the rate
   * limit.
   */
  readonly key: 'required' | 'optional' | 'none';
  /** Objects whose properties are the parameters. Path parameters that are not declared are strings. */
  readonly path?: z.ZodObject;
  readonly query?: z.ZodObject;
  readonly headers?: z.ZodObject;
  readonly body?: RequestBody;
  readonly answers: readonly Answer[];
  /** Codes besides those of authentication, the rate limit and `internal_error`. */
  readonly errors?: readonly ApiErrorCode[];
  /** Codes with a status that is not the code's own. */
  readonly otherErrors?: readonly { readonly status: number; readonly code: ApiErrorCode }[];
}

/** One row of the table that makes both the router and the document. */
export interface Route {
  readonly method: 'get' | 'post' | 'put' | 'delete';
  /** As OpenAPI writes it, such as `/jobs/{job_id}`; relative to the base address unless it is of `/files`. */
  readonly path: string;
  readonly handler: Handler;
  /** `internal`: for other services of the installation alone, and not in the document. */
  readonly operation: Operation | 'internal';
}
