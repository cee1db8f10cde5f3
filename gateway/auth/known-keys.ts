import { hash } from 'node:crypto';
import { ApiError } from '@semblance/common/errors';
import type { Caller } from '@semblance/proto/semblance/control/v1/control';
import { LRUCache } from 'lru-cache';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext } from '../http/context.ts';
import { type CallerContext, credentialOf, requireCaller } from './bearer.ts';

/** Keys that are remembered, the ones used last. */
const REMEMBERED = 50_000;
/** Time for which a key that was found valid counts as one whose requests are worth some work, in ms. */
const KNOWN_MS = 300_000;

/**
 * Keys that were found valid lately for an address, with the scopes that they had. One that was revoked or changed
 * meanwhile is refused all the same, after some work.
 */
export interface KnownKeys {
  /** @returns whether the key of a request is known, with the scope that its route needs if it is known which */
  has(ctx: CallerContext): boolean;
  add(ctx: CallerContext): void;
  delete(ctx: CallerContext): void;
}

export function createKnownKeys(): KnownKeys {
  const known = new LRUCache<string, Set<string>>({ max: REMEMBERED, ttl: KNOWN_MS });
  // No key is kept.
  const nameOf = (ctx: CallerContext) =>
    hash('sha256', `${ctx.state.address} ${credentialOf(ctx)}`, 'base64');
  return {
    has(ctx) {
      const scopes = known.get(nameOf(ctx));
      return scopes !== undefined && (ctx.state.scope === undefined || scopes.has(ctx.state.scope));
    },
    add(ctx) {
      const name = nameOf(ctx);
      const scopes = new Set(known.get(name));
      if (ctx.state.scope !== undefined) scopes.add(ctx.state.scope);
      known.set(name, scopes);
    },
    delete: (ctx) => void known.delete(nameOf(ctx)),
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
    const caller = requireCaller(ctx);
    if (known.has(ctx)) return caller;
    await control.checkCaller(ctx, { caller });
    known.add(ctx);
    return caller;
  };
}

/** Forgets a key that a handler found invalid, or without the scope. */
export function forgetInvalid(known: KnownKeys) {
  return async (ctx: GatewayContext, next: () => Promise<unknown>): Promise<void> => {
    try {
      await next();
    } catch (error) {
      if (error instanceof ApiError && (error.code === 'unauthorized' || error.code === 'forbidden'))
        known.delete(ctx);
      throw error;
    }
  };
}
