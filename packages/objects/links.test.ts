import { describe, expect, it } from 'vitest';
import { type LinkGrant, type LinkMethod, signLink, verifyLink } from './links.ts';

const key = Buffer.alloc(32, 1);
const get: LinkGrant = { method: 'GET', key: 'api/abc', expires: 2_000_000_000 };
const put: LinkGrant = { ...get, method: 'PUT', contentType: 'image/png', maxBytes: 1000 };
const remove: LinkGrant = { ...get, method: 'DELETE' };
const list: LinkGrant = { ...get, method: 'LIST', key: 'out/', after: 'ab12' };
const before = new Date(1_999_999_999_999);

function check(method: LinkMethod, link: string, now = before, signingKey = key) {
  const url = new URL(link, 'http://x');
  const named = method === 'LIST' ? url.searchParams.get('prefix') : url.pathname.slice('/files/'.length);
  return verifyLink(signingKey, method, named ?? '', url.searchParams, now);
}

describe('signed links', () => {
  it('grant what was signed', () => {
    expect(check('GET', signLink(key, get))).toEqual({ ok: true, grant: get });
    expect(check('PUT', signLink(key, put))).toEqual({ ok: true, grant: put });
    expect(check('DELETE', signLink(key, remove))).toEqual({ ok: true, grant: remove });
    expect(check('LIST', signLink(key, list))).toEqual({ ok: true, grant: list });
    const everything: LinkGrant = { method: 'LIST', key: '', expires: get.expires };
    expect(check('LIST', signLink(key, everything))).toEqual({
      ok: true,
      grant: { ...everything, after: '' },
    });
  });

  it('for deleting and listing hold for ten minutes at most, whoever signed them', () => {
    for (const grant of [remove, list]) {
      const signed = (ahead: number) =>
        check(grant.method, signLink(key, grant), new Date(2_000_000_000_000 - ahead));
      expect(signed(600_000).ok).toBe(true);
      expect(signed(600_001)).toEqual({ ok: false, reason: 'invalid' });
      expect(signed(0)).toEqual({ ok: false, reason: 'expired' });
    }
  });

  it('that belong to an API key name it, and the name cannot be left out, changed or added', () => {
    const [keyId, other] = [`key-${'0'.repeat(26)}`, `key-${'1'.repeat(26)}`];
    const link = signLink(key, { ...get, keyId });
    expect(check('GET', link)).toEqual({ ok: true, grant: { ...get, keyId } });
    const changed = (change: (query: URLSearchParams) => void, of = link) => {
      const url = new URL(of, 'http://x');
      change(url.searchParams);
      return check('GET', `${url.pathname}${url.search}`);
    };
    expect(changed((query) => query.delete('key')).ok).toBe(false);
    expect(changed((query) => query.set('key', other)).ok).toBe(false);
    expect(changed((query) => query.set('key', 'x'.repeat(300))).ok).toBe(false);
    expect(changed((query) => query.set('key', keyId), signLink(key, get)).ok).toBe(false);
    expect(check('GET', signLink(key, { ...get, filename: `key-${'0'.repeat(26)}` }))).toMatchObject({
      grant: { filename: keyId },
    });
  });

  it('are the same for the same grant', () => {
    expect(signLink(key, put)).toBe(signLink(key, { ...put }));
  });

  it('expire at their second, not before', () => {
    const link = signLink(key, get);
    expect(check('GET', link, new Date(2_000_000_000_000))).toEqual({ ok: false, reason: 'expired' });
    expect(check('GET', link, before).ok).toBe(true);
  });

  it('do not hold for another method or signing key', () => {
    expect(check('PUT', signLink(key, get)).ok).toBe(false);
    expect(check('GET', signLink(key, put)).ok).toBe(false);
    expect(check('GET', signLink(key, get), before, Buffer.alloc(32, 2)).ok).toBe(false);
    expect(check('DELETE', signLink(key, get)).ok).toBe(false);
    expect(check('GET', signLink(key, remove)).ok).toBe(false);
    const listLink = new URL(signLink(key, { ...get, method: 'LIST' }), 'http://x');
    expect(verifyLink(key, 'GET', get.key, listLink.searchParams, before).ok).toBe(false);
    expect(verifyLink(key, 'DELETE', get.key, listLink.searchParams, before).ok).toBe(false);
  });

  it('are void once any character of them is changed, dropped or doubled', () => {
    for (const grant of [get, put, remove, list]) {
      const link = signLink(key, grant);
      for (let i = '/files?'.length; i < link.length; i++) {
        const flipped = String.fromCharCode(link.charCodeAt(i) ^ 1);
        for (const changed of [
          link.slice(0, i) + flipped + link.slice(i + 1),
          link.slice(0, i) + link.slice(i + 1),
          link.slice(0, i) + link[i] + link.slice(i),
        ]) {
          const verdict = check(grant.method, changed);
          // A changed separator may leave an equivalent query; it then grants what was signed.
          if (verdict.ok) expect(verdict.grant).toEqual(grant);
          else expect(verdict.reason, changed).toBe('invalid');
        }
      }
    }
  });

  it.each(['../etc/passwd', 'api/../x', 'api//x', '/api/x', 'api/x%2Fy', 'api/.x', '', 'a'.repeat(600)])(
    'never name the key %j',
    (bad) => {
      expect(verifyLink(key, 'GET', bad, new URLSearchParams('expires=1&signature=x'), before)).toEqual({
        ok: false,
        reason: 'invalid',
      });
    },
  );

  it.each(['expires=2e9', 'expires=-1', 'expires=02000000000', 'expires=', 'expires=99999999999999999'])(
    'take no such expiry: %s',
    (query) => {
      const verdict = verifyLink(key, 'GET', 'api/abc', new URLSearchParams(`${query}&signature=x`), before);
      expect(verdict).toEqual({ ok: false, reason: 'invalid' });
    },
  );
});
