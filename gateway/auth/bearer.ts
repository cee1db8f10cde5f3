import { hash } from 'node:crypto';
import { ApiError } from '@semblance/common/errors';
import type { Caller } from '@semblance/proto/semblance/control/v1/control';
import type { GatewayContext } from '../http/context.ts';

/** Matches a bearer credential (RFC 6750): the scheme in any case, one or more spaces, a token68. */
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i;
/** Longest accepted key, in characters. Every key that is issued is shorter. */
const MAX_KEY_LENGTH = 512;

/** The caller of a request without a key. */
export const ANONYMOUS: Caller = { keySha256: Buffer.alloc(0) };

/** What a request says about its caller. */
export type CallerContext = Pick<GatewayContext, 'headers'> & {
  readonly state: Pick<GatewayContext['state'], 'address' | 'scope' | 'consoleToken'>;
};

/**
 * Returns the caller of a request: its key or its session of the console, its address, and the scope that its route needs.
 * @throws ApiError `unauthorized` when there is neither, or the header has no bearer key
 */
export function requireCaller(ctx: CallerContext): Caller {
  const { address, scope, consoleToken } = ctx.state;
  if (consoleToken === undefined) return { keySha256: hashOfKey(ctx.headers.authorization), address, scope };
  const sessionSha256 = hash('sha256', consoleToken, 'buffer');
  return { keySha256: ANONYMOUS.keySha256, sessionSha256, address, scope };
}

/** Returns whether a request says nothing about its caller. An empty Authorization header is not nothing. */
export function isAnonymous({ headers, state }: CallerContext): boolean {
  return headers.authorization === undefined && state.consoleToken === undefined;
}

/** Returns what a request presents of its caller, as one text; it is a secret. */
export function credentialOf({ headers, state }: CallerContext): string {
  return state.consoleToken === undefined ? (headers.authorization ?? '') : `console ${state.consoleToken}`;
}

/**
 * Returns the SHA-256 of the key in an Authorization header. Only that goes on; the key itself never leaves the gateway.
 * @throws ApiError `unauthorized` when the header is missing or has no bearer key
 */
export function hashOfKey(authorization: string | undefined): Buffer {
  if (authorization === undefined)
    throw new ApiError(
      'unauthorized',
      'An API key is needed: send the header "Authorization: Bearer <API_KEY>".',
    );
  const key = BEARER.exec(authorization)?.[1];
  if (!key || key.length > MAX_KEY_LENGTH)
    throw new ApiError('unauthorized', 'The Authorization header must read "Bearer <API_KEY>".');
  return hash('sha256', key, 'buffer');
}
