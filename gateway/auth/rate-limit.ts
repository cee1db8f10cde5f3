import type { ServerResponse } from 'node:http';

/** Trailing metadata of the control plane, such as `limit=60,remaining=59,reset=32`; `reset` in seconds. */
export const RATE_LIMIT_KEY = 'semblance-ratelimit';

const SHAPE = /^limit=(\d{1,10}),remaining=(\d{1,10}),reset=(\d{1,10})$/;

/**
 * Tells the client the rate limit that was applied to it.
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
