import type { DirectoryStore } from '@semblance/objects/directory-store';
import type { Handler } from '../http/context.ts';
import { requireGrant, sayObject } from './links.ts';

/** Handles DELETE of a signed link, for services of the installation only. Deleting a missing object succeeds. */
export function deleteFile({ store }: { readonly store: DirectoryStore }): Handler {
  return async (ctx) => {
    const { key } = requireGrant(ctx, 'DELETE', store);
    await store.delete(key);
    sayObject(ctx, 'absent');
    ctx.status = 204;
  };
}
