import { readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { ApiError } from '@semblance/common/errors';
import { sendAsset } from '../http/asset.ts';
import type { Handler } from '../http/context.ts';
import type { Route } from '../openapi/operation.ts';

const FOLDER = join(import.meta.dirname, 'page');

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/**
 * Allows only its own scripts and styles, calls and sockets at its own origin, and blobs for the user's files.
 * @param samples origins of the samples of voices, beside its own
 */
const policyWith = (samples: string) =>
  [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob:",
    `media-src 'self' blob: ${samples}`,
    // This means sockets, too.
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');

export interface TryPageOptions {
  /** Origin at which links to files begin; undefined: a store of objects makes them, at its own. */
  readonly filesOrigin: string | undefined;
}

/**
 * Returns the routes of a page to try live sessions with: microphone, camera or a file through the sockets. It has
 * no rights of its own; its user enters an API key.
 */
export function tryPageRoutes({ filesOrigin }: TryPageOptions): Route[] {
  const policy = policyWith(filesOrigin ?? 'http: https:');
  const files = new Map(
    readdirSync(FOLDER)
      .filter((name) => Object.hasOwn(TYPES, extname(name)))
      .map((name) => [name, readFileSync(join(FOLDER, name))]),
  );
  const serve =
    (nameOf: (ctx: Parameters<Handler>[0]) => string): Handler =>
    async (ctx) => {
      const name = nameOf(ctx);
      const body = files.get(name);
      if (!body) throw new ApiError('not_found', 'The page has no such file.');
      sendAsset(ctx, { type: TYPES[extname(name)] ?? '', body, policy, maxAge: 60 });
    };
  return [
    { method: 'get', path: '/try', handler: serve(() => 'index.html'), scope: 'none', operation: 'internal' },
    {
      method: 'get',
      path: '/try/{asset}',
      handler: serve((ctx) => ctx.params.asset as string),
      scope: 'none',
      operation: 'internal',
    },
  ];
}
