import { hash } from 'node:crypto';
import { ApiError } from '@semblance/common/errors';
import type { Caller } from '@semblance/proto/semblance/control/v1/control';
import { LRUCache } from 'lru-cache';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext } from '../http/context.ts';
import { requireCaller } from './bearer.ts';

/** Keys that are remembered, the ones used last. */
const REMEMBERED = 50_000;
/** Time for which a key that was found valid counts as one whose requests are worth some work, in ms. */
const KNOWN_MS = 300_000;

/** Keys that were found valid lately. One that was revoked meanwhile is refused all the same, after some work. */
export interface KnownKeys {
  has(authorization: string | undefined): boolean;
  add(authorization: string | undefined): void;
  delete(authorization: string | undefined): void;
}

export function createKnownKeys(): KnownKeys {
  const known = new LRUCache<string, true>({ max: REMEMBERED, ttl: KNOWN_MS });
  // No key is kept.
  const nameOf = (authorization = '') => hash('sha256', authorization, 'base64');
  return {
    has: (authorization) => known.has(nameOf(authorization)),
    add: (authorization) => void known.set(nameOf(authorization), true),
    delete: (authorization) => void known.delete(nameOf(authorization)),
  };
}

/**
 * Returns the caller of a request whose body is about to be read. A key that is not known is judged first, so that
 * nobody without a valid one has a body read and parsed.
 */
export type CallerBeforeBody = (ctx: GatewayContext) => Promise<Caller>;

export function createCallerBeforeBody(
  control: Pick<ControlPlane, 'checkCaller'>,
  known: KnownKeys,
): CallerBeforeBody {
  return async (ctx) => {
    const { authorization } = ctx.headers;
    const caller = requireCaller(authorization);
    if (known.has(authorization)) return caller;
    await control.checkCaller(ctx, { caller });
    known.add(authorization);
    return caller;
  };
}

/** Forgets a key that a handler found invalid. */
export function forgetInvalid(known: KnownKeys) {
  return async (ctx: GatewayContext, next: () => Promise<unknown>): Promise<void> => {
    try {
      await next();
    } catch (error) {
      if (error instanceof ApiError && error.code === 'unauthorized') known.delete(ctx.headers.authorization);
      throw error;
    }
  };
}
