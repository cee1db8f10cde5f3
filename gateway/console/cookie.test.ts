import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import { consoleTokenOf, cookieName } from './cookie.ts';

const URL = 'https://api.example.com';
const TOKEN = `con_${'a'.repeat(43)}`;
const COOKIE = `${cookieName(URL)}=${TOKEN}`;
const OWN = { cookie: COOKIE, host: 'api.example.com', 'semblance-console': '1' };

const tokenOf = (headers: Record<string, string>, method = 'GET', publicUrl = URL) =>
  consoleTokenOf({ req: { headers, method } as unknown as IncomingMessage }, publicUrl);

test('the cookie of a page of this origin is taken', () => {
  expect(tokenOf(OWN)).toBe(TOKEN);
  expect(tokenOf({ ...OWN, 'sec-fetch-site': 'same-origin' })).toBe(TOKEN);
  expect(tokenOf({ ...OWN, origin: URL }, 'POST')).toBe(TOKEN);
  expect(tokenOf({ ...OWN, cookie: `a=1; ${COOKIE}; b=2` })).toBe(TOKEN);
  // Another name of the service, such as a forwarded port.
  const local = { ...OWN, host: 'localhost:8080', origin: 'http://localhost:8080' };
  expect(tokenOf(local, 'DELETE')).toBe(TOKEN);
});

describe('the cookie is not taken', () => {
  const { 'semblance-console': _, ...bare } = OWN;
  test.each([
    ['without the header of the console', bare, 'GET'],
    ['with another value of the header', { ...OWN, 'semblance-console': 'true' }, 'GET'],
    ['from another site', { ...OWN, 'sec-fetch-site': 'cross-site' }, 'GET'],
    ['from a neighbouring domain', { ...OWN, 'sec-fetch-site': 'same-site' }, 'GET'],
    ['from an address that was typed in', { ...OWN, 'sec-fetch-site': 'none' }, 'GET'],
    ['from another origin', { ...OWN, origin: 'https://evil.example' }, 'POST'],
    ['from another port', { ...OWN, origin: 'https://api.example.com:444' }, 'POST'],
    ['from an origin that begins like this one', { ...OWN, origin: `${URL}.evil.example` }, 'POST'],
    ['from a page without an origin', { ...OWN, origin: 'null' }, 'POST'],
    ['for a change without Origin or Sec-Fetch-Site', OWN, 'POST'],
    ['for a change of any other method', OWN, 'PROPFIND'],
    ['beside an Authorization header', { ...OWN, authorization: 'Bearer wrong' }, 'GET'],
    ['given twice', { ...OWN, cookie: `${COOKIE}; ${COOKIE}` }, 'GET'],
    ['with what is no token', { ...OWN, cookie: `${cookieName(URL)}=con_"` }, 'GET'],
    [
      'with an API key as its value',
      { ...OWN, cookie: `${cookieName(URL)}=sk_live_${'a'.repeat(43)}` },
      'GET',
    ],
    [
      'by the name that a neighbouring domain can set',
      { ...OWN, cookie: `semblance-console=${TOKEN}` },
      'GET',
    ],
  ])('%s', (_what, headers, method) => {
    expect(tokenOf(headers, method)).toBeUndefined();
  });
});

test('without HTTPS the cookie has a name that browsers then take', () => {
  expect(cookieName('http://localhost:8080')).toBe('semblance-console');
});
