import type { DirectoryStore } from '@semblance/objects/directory-store';
import type { Handler } from '../http/context.ts';
import { requireGrant } from './links.ts';

/** Most files examined for one answer, so that it comes soon however few of them match. */
const FILES_A_PAGE = 1_000;

/** Handles GET of a signed list, for services of the installation only: one page, and the start of the next. */
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
