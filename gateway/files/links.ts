import type { DirectoryStore } from '@semblance/objects/directory-store';
import { FILES_PATH, type LinkGrant, type LinkMethod } from '@semblance/objects/links';
import { OBJECT_STATE, type ObjectState } from '@semblance/objects/object-state';
import type { GatewayContext } from '../http/context.ts';
import { StatusError } from '../http/envelope.ts';

/**
 * Returns what the link of a request permits. The path is used as it was sent: a key needs no escapes, so an
 * escaped one is another key, which nobody signed.
 * @throws StatusError 403 when the link was changed or has expired
 */
export function requireGrant(ctx: GatewayContext, method: LinkMethod, store: DirectoryStore): LinkGrant {
  const query = new URLSearchParams(ctx.querystring);
  const key = method === 'LIST' ? (query.get('prefix') ?? '') : ctx.path.slice(FILES_PATH.length + 1);
  const verdict = store.verify(method, key, query);
  if (verdict.ok) return verdict.grant;
  const message =
    verdict.reason === 'expired'
      ? 'This link has expired. Read the job again for a new one.'
      : 'This link is not valid. Use it exactly as it was given.';
  throw new StatusError(403, 'unauthorized', message);
}

/**
 * Sets the header that marks an answer about the object. Services of the installation accept no answer without it.
 */
export function sayObject(ctx: GatewayContext, state: ObjectState): void {
  ctx.set(OBJECT_STATE, state);
}
