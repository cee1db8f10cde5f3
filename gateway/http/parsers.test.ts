/** Whatever a client writes into a header, a key or a link, parsing throws only refusals and admits nothing wrong. */
import { hash } from 'node:crypto';
import { ApiError } from '@semblance/common/errors';
import { isObjectKey } from '@semblance/common/object-key';
import { callbackUrlFault, isIdempotencyKey } from '@semblance/common/submit-rules';
import { type LinkGrant, signLink, verifyLink } from '@semblance/objects/links';
import { anyText } from '@semblance/testkit/common/any-text';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { hashOfKey } from '../auth/bearer.ts';
import { setRateLimitHeaders } from '../auth/rate-limit.ts';
import { ifRangeHolds, isNotModified, parseRange } from '../files/range.ts';
import { fileKey } from '../jobs/fields.ts';
import { boundaryOf, MultipartError, parsePartHeader } from '../uploads/multipart-header.ts';

/** Generates text of any characters, and text close to the valid one. */
function near(...samples: string[]): fc.Arbitrary<string> {
  const broken = fc
    .tuple(fc.constantFrom(...samples), fc.nat(), fc.nat(3), anyText(4))
    .map(([text, at, cut, put]) => {
      const place = at % (text.length + 1);
      return text.slice(0, place) + put + text.slice(place + cut);
    });
  return fc.oneof(anyText(), broken, broken, fc.constantFrom(...samples));
}

const RUNS = { numRuns: 1_000 };

test('Authorization: a bearer key, hashed, or `unauthorized`', () => {
  fc.assert(
    fc.property(near('Bearer sk_live_0123456789', 'bearer   abc==', 'Basic dXNlcjpw'), (header) => {
      try {
        const keySha256 = hashOfKey(header);
        const key = /^bearer +(\S+)$/i.exec(header)?.[1] ?? '';
        expect(keySha256.equals(hash('sha256', key, 'buffer'))).toBe(true);
        expect(key).toMatch(/^[\x21-\x7e]{1,512}$/);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        expect(error.code).toBe('unauthorized');
        if (header.length > 12) expect(error.message).not.toContain(header);
      }
    }),
    RUNS,
  );
});

test('Idempotency-Key: printable ASCII of bounded length alone', () => {
  fc.assert(
    fc.property(near('order-1', 'x'.repeat(255)), (text) => {
      const sound = text.length >= 1 && text.length <= 255 && [...text].every((c) => c >= ' ' && c <= '~');
      expect(isIdempotencyKey(text)).toBe(sound);
    }),
    RUNS,
  );
});

test('Range: a range is within the file, whatever the header says', () => {
  const headers = near('bytes=0-99', 'bytes=-5', 'bytes=7-', 'bytes=0-1,4-5', 'bytes=99999999999999999999-');
  fc.assert(
    fc.property(headers, fc.nat(10_000), (header, size) => {
      const range = parseRange(header, size);
      if (range === undefined || range === 'unsatisfiable') return;
      expect(range.start).toBeGreaterThanOrEqual(0);
      expect(range.end).toBeGreaterThanOrEqual(range.start);
      expect(range.end).toBeLessThan(size);
    }),
    RUNS,
  );
});

test('If-Range, If-None-Match and If-Modified-Since never throw', () => {
  const current = { etag: '"v1"', lastModified: new Date('2026-01-01T00:00:00.500Z') };
  const headers = near('"v1"', 'W/"v1"', '*', 'Thu, 01 Jan 2026 00:00:00 GMT', '"a", "v1"');
  fc.assert(
    fc.property(headers, (header) => {
      if (ifRangeHolds(header, current))
        expect(['"v1"', 'Thu, 01 Jan 2026 00:00:00 GMT']).toContain(header.trim());
      isNotModified({ 'if-none-match': header }, current);
      isNotModified({ 'if-modified-since': header }, current);
    }),
    RUNS,
  );
});

describe('keys', () => {
  const keys = near(
    'api/01k9x3v7m2q8r5t1w4y6z0abcd',
    'api/a/b.png',
    'api/../etc/passwd',
    'api//x',
    'api/.hidden',
  );

  test('one that is taken names nothing outside its store', () => {
    fc.assert(
      fc.property(keys, (key) => {
        if (!isObjectKey(key)) return;
        expect(key).toMatch(/^[A-Za-z0-9._/-]{1,512}$/);
        for (const part of key.split('/')) expect(['', '.', '..']).not.toContain(part);
        expect(new URL(`http://x/files/${key}`).pathname).toBe(`/files/${key}`);
      }),
      RUNS,
    );
  });

  test('a file_key in a body begins with `api/` and is a key, or is refused without being repeated', () => {
    fc.assert(
      fc.property(fc.oneof(keys, fc.jsonValue()), (value) => {
        const result = fileKey.safeParse(value);
        if (result.success) {
          expect(isObjectKey(result.data) && result.data.startsWith('api/')).toBe(true);
        } else {
          const told = result.error.issues.map(({ message }) => message).join();
          if (typeof value === 'string' && value.length > 12) expect(told).not.toContain(value);
        }
      }),
      RUNS,
    );
  });
});

describe('signed links', () => {
  const signingKey = Buffer.alloc(32, 7);
  const now = new Date('2026-01-01T00:00:00Z');
  const grant: LinkGrant = {
    method: 'GET',
    key: 'api/01k9x3v7m2q8r5t1w4y6z0abcd',
    expires: now.getTime() / 1000 + 60,
  };
  const [path = '', query = ''] = signLink(signingKey, grant).split('?');
  const key = path.replace('/files/', '');

  test('the link as it was given is good', () => {
    expect(verifyLink(signingKey, 'GET', key, new URLSearchParams(query), now)).toEqual({ ok: true, grant });
  });

  test('one that was changed anywhere is not, and nothing throws', () => {
    fc.assert(
      fc.property(
        near(key),
        near(query),
        fc.constantFrom('GET' as const, 'PUT' as const),
        (key2, query2, method) => {
          const verdict = verifyLink(signingKey, method, key2, new URLSearchParams(query2), now);
          if (!verdict.ok) return;
          // Fields without meaning may be added; the signed content is what is granted.
          expect(verdict.grant).toEqual(grant);
          expect([method, key2]).toEqual(['GET', key]);
        },
      ),
      { numRuns: 3_000 },
    );
  });

  test('of every grant: what was signed verifies, by no other method, key or secret', () => {
    const grants = fc.record({
      key: fc.stringMatching(/^(api|out)\/[a-z0-9]{4,12}$/),
      expires: fc.integer({ min: now.getTime() / 1000 + 1, max: 4_000_000_000 }),
    });
    fc.assert(
      fc.property(grants, (made) => {
        const link = signLink(signingKey, { method: 'GET', ...made });
        const search = new URLSearchParams(link.split('?')[1]);
        const verify = (secret: Buffer, method: 'GET' | 'PUT', of: string) =>
          verifyLink(secret, method, of, search, now).ok;
        expect(verify(signingKey, 'GET', made.key)).toBe(true);
        expect(verify(signingKey, 'PUT', made.key)).toBe(false);
        expect(verify(signingKey, 'GET', `${made.key}x`)).toBe(false);
        expect(verify(Buffer.alloc(32, 8), 'GET', made.key)).toBe(false);
      }),
      { numRuns: 300 },
    );
  });
});

test('the boundary of a form: one that RFC 2046 allows, or none', () => {
  const types = near(
    'multipart/form-data; boundary=abc',
    'multipart/form-data; boundary="a b"; charset=x',
    'text/plain',
  );
  fc.assert(
    fc.property(types, (type) => {
      const boundary = boundaryOf(type);
      if (boundary === undefined) return;
      expect(boundary.length).toBeGreaterThan(0);
      expect(boundary.length).toBeLessThanOrEqual(70);
      expect(boundary).not.toMatch(/[\r\n]/);
    }),
    RUNS,
  );
});

test('the head of a part: what it says, or a fault of the form', () => {
  const heads = near(
    'Content-Disposition: form-data; name="file"; filename="a.png"\r\nContent-Type: image/png',
    "Content-Disposition: form-data; name=file; filename*=UTF-8''na%C3%AFve.png",
  );
  fc.assert(
    fc.property(heads, (head) => {
      try {
        expect(typeof parsePartHeader(head).name).toBe('string');
      } catch (error) {
        expect(error).toBeInstanceOf(MultipartError);
      }
    }),
    RUNS,
  );
});

test('callback_url: http or https without credentials, or a fault', () => {
  fc.assert(
    fc.property(
      near('https://example.com/hook?a=1', 'http://user:pw@example.com', 'ftp://x', 'javascript:1'),
      (text) => {
        if (callbackUrlFault(text) !== undefined) return;
        const url = new URL(text);
        expect(['http:', 'https:']).toContain(url.protocol);
        expect(url.username + url.password).toBe('');
      },
    ),
    RUNS,
  );
});

test('the rate limit between the services: three numbers, or nothing is set', () => {
  fc.assert(
    fc.property(near('limit=60,remaining=59,reset=32'), (text) => {
      const set = new Map<string, string>();
      const response = { setHeader: (name: string, value: string) => void set.set(name, value) };
      const reset = setRateLimitHeaders(response as never, text);
      if (reset === undefined) expect(set.size).toBe(0);
      else for (const value of set.values()) expect(value).toMatch(/^\d{1,10}$/);
    }),
    RUNS,
  );
});
