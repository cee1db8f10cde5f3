import { ApiError } from '@semblance/common/errors';
import { FILES_PATH } from '@semblance/objects/links';
import { LRUCache } from 'lru-cache';
import { networkOf } from '../http/address.ts';
import type { GatewayContext } from '../http/context.ts';
import type { KnownKeys } from './known-keys.ts';

export interface KeylessLimitOptions {
  /** Refused requests that a network may send in a minute, and at once; 0 for any number. */
  readonly perMinute: number;
  /** Proxies before the gateway, which say in `X-Forwarded-For` who called them. */
  readonly trustedProxies: number;
  /** Milliseconds of a clock that never goes back. */
  readonly now?: () => number;
}

/** A token bucket: `tokens` that it had at the time `at`, in ms. */
interface Bucket {
  readonly tokens: number;
  readonly at: number;
}

/** Networks that are remembered, the ones used last. */
const REMEMBERED = 50_000;

/**
 * Creates a middleware that limits requests without a valid key by network: each that is refused as `unauthorized`
 * takes a token, and a network without tokens is answered `rate_limited` before any work, but for keys that were found
 * valid lately. Links to files are outside: they
 * need no key, and services of the installation use them.
 */
export function limitKeyless(
  { perMinute, trustedProxies, now = () => performance.now() }: KeylessLimitOptions,
  known: KnownKeys,
) {
  const buckets = new LRUCache<string, Bucket>({ max: REMEMBERED });
  const perMs = perMinute / 60_000;

  function tokensOf(network: string): number {
    const bucket = buckets.get(network);
    return bucket ? Math.min(perMinute, bucket.tokens + (now() - bucket.at) * perMs) : perMinute;
  }

  return async (ctx: GatewayContext, next: () => Promise<unknown>): Promise<void> => {
    if (perMinute === 0 || ctx.path.startsWith(FILES_PATH)) return void (await next());
    const network = networkOf(ctx.req, trustedProxies);
    const tokens = tokensOf(network);
    if (tokens < 1 && !known.has(ctx)) {
      ctx.set('Retry-After', String(Math.ceil((1 - tokens) / perMs / 1_000)));
      throw new ApiError('rate_limited', 'Too many requests without a valid API key came from this network.');
    }
    try {
      await next();
      // Only answers to valid keys have a limit of theirs.
      if (ctx.res.hasHeader('RateLimit-Limit')) known.add(ctx);
    } catch (error) {
      if (error instanceof ApiError && error.code === 'unauthorized')
        buckets.set(network, { tokens: Math.max(0, tokensOf(network) - 1), at: now() });
      throw error;
    }
  };
}
