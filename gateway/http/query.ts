import { ApiError } from '@semblance/common/errors';
import type { GatewayContext } from './context.ts';

/** Longest query of a request, in bytes. The links of the service and the queries of its routes are shorter. */
const MAX_QUERY_BYTES = 1024;

/** @throws ApiError `invalid_input` when the query is longer than any that the service understands */
export function requireShortQuery({ querystring }: GatewayContext): void {
  if (querystring.length > MAX_QUERY_BYTES)
    throw new ApiError('invalid_input', `The query must be at most ${MAX_QUERY_BYTES} bytes long.`);
}

/**
 * Returns the parameters of a request's query; one that is given several times has all its values. Koa's `ctx.query`
 * is the same, but its time grows with the square of the repeats.
 */
export function queryOf({ querystring }: GatewayContext): Record<string, string | string[]> {
  const query: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of new URLSearchParams(querystring)) {
    const before = query[name];
    if (before === undefined) query[name] = value;
    else if (Array.isArray(before)) before.push(value);
    else query[name] = [before, value];
  }
  return query;
}
