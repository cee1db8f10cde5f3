import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join, relative } from 'node:path';
import { ApiError } from '@semblance/common/errors';
import type { GatewayContext, Handler } from '../http/context.ts';
import type { Route } from '../openapi/operation.ts';

/** Path under which the pages of the console are, outside the base address of the API. */
export const CONSOLE_PATH = '/console';

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};
/** Forms in which the build wrote each text, the smallest first. */
const ENCODINGS = [
  { name: 'br', end: '.br' },
  { name: 'gzip', end: '.gz' },
] as const;

/** Where the build writes the nonce of an answer. */
const NONCE = '__NONCE__';
const YEAR_SECONDS = 31_536_000;

/**
 * Allows only own scripts, own styles and those with the nonce, calls at this origin, and pictures of the store of files.
 * Nothing is loaded from another host.
 */
const policyOf = (nonce: string, filesOrigin: string) =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    `img-src 'self' ${filesOrigin}`.trim(),
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');

interface Built {
  readonly page: string;
  /** Files beside the page, by their path and encoding. */
  readonly files: ReadonlyMap<string, Buffer>;
}

export interface ConsolePagesOptions {
  /** Origin of links to files where it is not that of the gateway; undefined: it is. */
  readonly filesOrigin: (() => Promise<string>) | undefined;
  /** Folder of the build. Default: that of the package of the console. */
  readonly folder?: string | undefined;
}

/** Returns the routes of the console's pages. Every path under it without a file is the page, which reads the path itself. */
export function consolePageRoutes({ filesOrigin, folder = builtFolder() }: ConsolePagesOptions): Route[] {
  const { page, files } = read(folder);
  let origin: Promise<string> | undefined;

  const sendPage: Handler = async (ctx) => {
    origin ??= filesOrigin?.() ?? Promise.resolve('');
    const nonce = randomBytes(16).toString('base64');
    common(ctx);
    ctx.set({ 'Content-Security-Policy': policyOf(nonce, await origin), 'Cache-Control': 'no-cache' });
    ctx.type = 'text/html; charset=utf-8';
    ctx.body = page.replaceAll(NONCE, nonce);
  };

  const send: Handler = async (ctx, next) => {
    const path = ctx.path.slice(CONSOLE_PATH.length + 1);
    const type = TYPES[extname(path)];
    if (type === undefined || !files.has(path)) {
      if (path.startsWith('assets/')) throw new ApiError('not_found', 'The console has no such file.');
      return sendPage(ctx, next);
    }
    common(ctx);
    ctx.vary('Accept-Encoding');
    ctx.set(
      'Cache-Control',
      `public, max-age=${path.startsWith('assets/') ? `${YEAR_SECONDS}, immutable` : '3600'}`,
    );
    ctx.type = type;
    for (const { name, end } of ENCODINGS) {
      const body = files.get(path + end);
      if (!body || !ctx.acceptsEncodings(name)) continue;
      ctx.set('Content-Encoding', name);
      ctx.body = body;
      return;
    }
    ctx.body = files.get(path);
  };
  const common = (ctx: GatewayContext) =>
    ctx.set({ 'Referrer-Policy': 'no-referrer', 'Cross-Origin-Opener-Policy': 'same-origin' });
  return [
    { method: 'get', path: CONSOLE_PATH, handler: sendPage, scope: 'none', operation: 'internal' },
    { method: 'get', path: `${CONSOLE_PATH}/`, handler: sendPage, scope: 'none', operation: 'internal' },
    { method: 'get', path: `${CONSOLE_PATH}/*path`, handler: send, scope: 'none', operation: 'internal' },
  ];
}

function builtFolder(): string {
  const manifest = createRequire(import.meta.url).resolve('@semblance/console/package.json');
  return join(dirname(manifest), 'dist');
}

/** @throws Error when the console was not built */
function read(folder: string): Built {
  const page = join(folder, 'index.html');
  if (!existsSync(page))
    throw new Error(`the console is not built, ${page} is missing: run \`npm run generate:console\``);
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  return {
    page: readFileSync(page, 'utf8'),
    files: new Map(files.map((file) => [relative(folder, file).replaceAll('\\', '/'), readFileSync(file)])),
  };
}
