import type { ServerResponse } from 'node:http';

/**
 * Key of the trailing metadata in which the control plane sends a rate limit, such as
 * `limit=60,remaining=59,reset=32`; `reset` is in seconds.
 */
export const RATE_LIMIT_KEY = 'semblance-ratelimit';

const SHAPE = /^limit=(\d{1,10}),remaining=(\d{1,10}),reset=(\d{1,10})$/;

/**
 * Sets the headers of the rate limit that was applied to the request.
 * @returns seconds until the window ends, or undefined when the text is no rate limit
 */
export function setRateLimitHeaders(response: ServerResponse, text: string): number | undefined {
  const match = SHAPE.exec(text);
  if (!match) return undefined;
  const [, limit = '', remaining = '', reset = ''] = match;
  response.setHeader('RateLimit-Limit', limit);
  response.setHeader('RateLimit-Remaining', remaining);
  response.setHeader('RateLimit-Reset', reset);
  return Number(reset);
}
