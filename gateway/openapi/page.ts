import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { ApiError } from '@semblance/common/errors';
import { z } from 'zod';
import { sendAsset } from '../http/asset.ts';
import type { Handler } from '../http/context.ts';
import type { Operation, Route } from './operation.ts';

/**
 * Policy of the page that shows the document with Swagger UI from this installation's own files: nothing is loaded
 * from elsewhere. Its style sheet contains images as data.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Face, Video and Voice Transformation Service: API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" href="docs/favicon-32x32.png">
</head>
<body>
<div id="page"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script type="module" src="docs/page.js"></script>
</body>
</html>
`;

/**
 * The document is beside the page, wherever a proxy puts both. It names the public address of the service; the page
 * calls where it was loaded from, which may be another name of it, because its policy allows nothing else.
 */
const SCRIPT = `const here = new URL('.', location.href);
const response = await fetch(new URL('openapi.json', here));
const spec = await response.json();
const origin = new URL(spec.servers[0].url).origin;
spec.servers = [{ url: here.href.replace(/[/]$/, '') }];
for (const path of Object.values(spec.paths))
  for (const server of path.servers ?? []) server.url = server.url.replace(origin, here.origin);
SwaggerUIBundle({
  spec,
  dom_id: '#page',
  deepLinking: true,
  displayRequestDuration: true,
  validatorUrl: null,
  queryConfigEnabled: false,
  persistAuthorization: false,
});
`;

const LIBRARY = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));

interface Asset {
  readonly type: string;
  readonly read: () => Buffer;
}

const fromLibrary = (name: string, type: string): [string, Asset] => {
  let bytes: Buffer | undefined;
  // Read on the first request, because most gateways never get one.
  const read = () => {
    bytes ??= readFileSync(join(LIBRARY, name));
    return bytes;
  };
  return [name, { type, read }];
};

const ASSETS = new Map<string, Asset>([
  fromLibrary('swagger-ui.css', 'text/css; charset=utf-8'),
  fromLibrary('swagger-ui-bundle.js', 'text/javascript; charset=utf-8'),
  fromLibrary('favicon-32x32.png', 'image/png'),
  ['page.js', { type: 'text/javascript; charset=utf-8', read: () => Buffer.from(SCRIPT) }],
]);

export const pageRoutes: readonly Route[] = [
  { method: 'get', path: '/docs', handler: page(), scope: 'none', operation: pageOperation() },
  { method: 'get', path: '/docs/{asset}', handler: asset(), scope: 'none', operation: assetOperation() },
];

function page(): Handler {
  return async (ctx) =>
    sendAsset(ctx, { type: 'text/html; charset=utf-8', body: Buffer.from(PAGE), policy: POLICY, maxAge: 60 });
}

function asset(): Handler {
  return async (ctx) => {
    const found = ASSETS.get(ctx.params.asset as string);
    if (!found) throw new ApiError('not_found', 'The page has no such file.');
    sendAsset(ctx, { type: found.type, body: found.read(), policy: POLICY, maxAge: 3_600 });
  };
}

function pageOperation(): Operation {
  return {
    id: 'readDocs',
    tag: 'Service',
    summary: 'Read this document as a page',
    description: 'A page that loads nothing from elsewhere, and from which calls can be tried.',
    key: 'none',
    answers: [{ status: 200, description: 'The page.', type: 'text/html', headers: ['Cache-Control'] }],
  };
}

function assetOperation(): Operation {
  return {
    id: 'readDocsAsset',
    tag: 'Service',
    summary: 'Scripts and styles of the page',
    description: 'Files that the page names.',
    key: 'none',
    path: z.object({
      asset: z.enum([...ASSETS.keys()]).meta({ description: 'Name of the file, as in the page.' }),
    }),
    answers: [{ status: 200, description: 'The file.', type: '*/*', headers: ['Cache-Control'] }],
    errors: ['not_found'],
  };
}
