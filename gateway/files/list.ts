import type { DirectoryStore } from '@semblance/objects/directory-store';
import type { Handler } from '../http/context.ts';
import { requireGrant } from './links.ts';

/** Files whose ends are read for one answer, so that it is given soon, however few of them match. */
const FILES_A_PAGE = 1_000;

/** GET of a signed list, for services of the installation alone: a page of it, and where the next one begins. */
export function listFiles({ store }: { readonly store: DirectoryStore }): Handler {
  return async (ctx) => {
    const { key, after } = requireGrant(ctx, 'LIST', store);
    const { objects, next } = await store.listPage(key, { after, files: FILES_A_PAGE });
    ctx.set('Cache-Control', 'no-store');
    ctx.type = 'application/json';
    ctx.body = JSON.stringify({
      objects: objects.map((object) => ({
        key: object.key,
        size_bytes: object.sizeBytes,
        stored_at: object.storedAt.toISOString(),
      })),
      ...(next === undefined ? {} : { next }),
    });
  };
}
