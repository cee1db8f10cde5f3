import type { ApiErrorCode } from '@semblance/common/errors';
import type { Scope } from '@semblance/common/scopes';
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
  /** Names from `RESPONSE_HEADERS` (parts.ts) besides those of every answer. */
  readonly headers?: readonly string[];
}

export interface RequestBody {
  readonly type: string;
  /** Schema of the request; its input side is documented. */
  readonly schema: z.ZodType;
  readonly example?: unknown;
  /** Whether the body is optional. Default: it is required. */
  readonly optional?: boolean;
}

/**
 * The OpenAPI description of a route. It is declared beside the handler, with the schemas that the handler uses,
 * and is the only machine-readable description of the route.
 */
export interface Operation {
  /** operationId, in camelCase. */
  readonly id: string;
  readonly tag: 'Uploads' | 'Jobs' | 'Sessions' | 'Account' | 'Files' | 'Service' | 'Webhook management';
  readonly summary: string;
  readonly description: string;
  /**
   * Whether a bearer key is required. With a key come the errors and headers of authentication and of the rate
   * limit.
   */
  readonly key: 'required' | 'optional' | 'none';
  /** Objects whose properties are the parameters. Undeclared path parameters are strings. */
  readonly path?: z.ZodObject;
  readonly query?: z.ZodObject;
  readonly headers?: z.ZodObject;
  readonly body?: RequestBody;
  readonly answers: readonly Answer[];
  /** Runtime expression of the address that is called when the job, or the batch, has ended. */
  readonly callback?: string;
  /** What has ended then. Default: the job. */
  readonly callbackOf?: 'batch';
  /** Codes besides those of authentication, the rate limit and `internal_error`. */
  readonly errors?: readonly ApiErrorCode[];
  /** Codes with another status than their own. */
  readonly otherErrors?: readonly { readonly status: number; readonly code: ApiErrorCode }[];
  /** Headers that answers with an error may have, beside those of all. */
  readonly errorHeaders?: readonly string[];
}

/** One row of the table from which both the router and the document are made. */
export interface Route {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** In OpenAPI notation, such as `/jobs/{job_id}`; relative to the base address unless under `/files`. */
  readonly path: string;
  readonly handler: Handler;
  /** What a key needs for it; `none`: the route judges no key. */
  readonly scope: Scope | 'none';
  /** `internal`: only for other services of the installation, and not in the document. */
  readonly operation: Operation | 'internal';
}
