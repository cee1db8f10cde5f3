import type { IncomingMessage } from 'node:http';
import type { GatewayContext } from '../http/context.ts';

/**
 * Header that pages of the console send with every call. A page of another origin cannot: its browser asks first whether
 * it may, and the API allows nobody.
 */
const CONSOLE_HEADER = 'semblance-console';

/** Methods that change nothing, of which browsers send no Origin to their own origin. */
const READS = new Set(['GET', 'HEAD']);
const TOKEN = /^con_[\w-]{20,200}$/;

/**
 * Returns the name of the cookie. With `__Host-` browsers take it from this host alone and over HTTPS alone, so that no
 * neighbouring domain can set another one.
 */
export function cookieName(publicUrl: string): string {
  return isSecure(publicUrl) ? '__Host-semblance-console' : 'semblance-console';
}

const isSecure = (publicUrl: string) => new URL(publicUrl).protocol === 'https:';

/** Sets the cookie to a token; undefined: removes it. */
export function setConsoleCookie(ctx: GatewayContext, publicUrl: string, token: string | undefined): void {
  const rules = ['Path=/', 'HttpOnly', 'SameSite=Strict', ...(isSecure(publicUrl) ? ['Secure'] : [])];
  if (token === undefined) rules.push('Max-Age=0');
  ctx.append('Set-Cookie', [`${cookieName(publicUrl)}=${token ?? ''}`, ...rules].join('; '));
}

/**
 * Returns the token of a request's session, if a page of this origin sent it. An Authorization header goes before the
 * cookie, which is then no credential of the request.
 */
export function consoleTokenOf(ctx: Pick<GatewayContext, 'req'>, publicUrl: string): string | undefined {
  const { headers } = ctx.req;
  if (headers.cookie === undefined || headers.authorization !== undefined) return undefined;
  return isOwnPage(ctx.req, publicUrl) ? tokenIn(headers.cookie, cookieName(publicUrl)) : undefined;
}

/** Returns whether a page of this origin sent the request, as far as a browser tells. */
export function isOwnPage({ headers, method = '' }: IncomingMessage, publicUrl: string): boolean {
  if (headers[CONSOLE_HEADER] !== '1') return false;
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin') return false;
  const { origin } = headers;
  // Without HTTPS browsers send no Sec-Fetch-Site.
  if (origin === undefined) return READS.has(method) || site === 'same-origin';
  return origin === new URL(publicUrl).origin || hostOf(origin) === headers.host?.toLowerCase();
}

/** Returns the host with its port of an origin that a browser names; undefined: it names none, as in `null`. */
function hostOf(origin: string): string | undefined {
  return /^https?:\/\/([^/]+)$/.exec(origin)?.[1];
}

/** Two cookies of the name are no token: nobody knows which one is the service's. */
function tokenIn(cookie: string, name: string): string | undefined {
  const values = cookie
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
  const [token] = values;
  return values.length === 1 && token !== undefined && TOKEN.test(token) ? token : undefined;
}
