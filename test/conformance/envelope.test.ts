import { connect } from 'node:net';
import type { Answer, Api } from '@semblance/testkit/stack/api';
import { expectEnvelope, expectError } from '@semblance/testkit/stack/expect-error';
import { sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

let api: Api;

beforeAll(async () => {
  api = (await (await sharedStack()).newAccount()).api;
}, 240_000);

const JSON_TYPE = { 'content-type': 'application/json' };

/** Sends a request byte by byte, because no HTTP client would send it. */
function raw(baseUrl: string, text: string): Promise<Pick<Answer, 'status' | 'headers' | 'body' | 'text'>> {
  const { hostname, port } = new URL(baseUrl);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port) }, () => socket.end(text));
    let said = '';
    socket.setTimeout(60_000, () => socket.destroy(new Error('no answer')));
    socket.on('data', (bytes) => {
      said += bytes.toString('utf8');
    });
    socket.on('error', reject);
    socket.on('close', () => {
      const [head = '', ...rest] = said.split('\r\n\r\n');
      const [statusLine = '', ...lines] = head.split('\r\n');
      const body = rest.join('\r\n\r\n');
      const headers = new Headers(
        lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()]),
      );
      let parsed: unknown;
      try {
        parsed = JSON.parse(body);
      } catch {
        // The body stays undefined, and the test shows what it received.
      }
      resolve({ status: Number(statusLine.split(' ')[1]), headers, text: said, body: parsed });
    });
  });
}

describe('Every error has the envelope `{error: {code: <string>, message: <string>}}`', () => {
  test.each([
    ['an unknown route', 'GET', '/nowhere'],
    ['the root of the version', 'GET', ''],
    ['a capability that does not exist', 'POST', '/face-swop'],
    ['a path below a route', 'GET', '/balance/now'],
    ['an encoded path', 'GET', '/%62alance%2f..'],
    ['a path that is no valid encoding', 'GET', '/jobs/%zz'],
    ['a job id with a NUL', 'GET', '/jobs/%00'],
    ['a job id that climbs', 'GET', '/jobs/..%2f..%2fetc%2fpasswd'],
    ['a job id with quotes', 'GET', "/jobs/'%20OR%20'1'='1"],
    ['a very long job id', 'GET', `/jobs/${'j'.repeat(6_000)}`],
  ])('%s', async (_name, method, path) => {
    const answer = await api.request(method, path);
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
    expectEnvelope(answer);
  });

  test('an unknown route is `not_found`', async () => {
    expectError(await api.get('/nowhere'), 'not_found');
  });

  test('a path outside the API is answered in the envelope too', async () => {
    const answer = await fetch(new URL('/nothing-here', api.baseUrl));
    const text = await answer.text();
    expectError(
      { status: answer.status, headers: answer.headers, text, body: JSON.parse(text) },
      'not_found',
    );
  });

  test.each([
    ['GET', '/uploads'],
    ['DELETE', '/face-swap-image'],
    ['GET', '/face-swap-image'],
    ['POST', '/balance'],
    ['PUT', '/jobs/some-job'],
    ['PATCH', '/pricing'],
  ])('a method that the route does not have: %s %s', async (method, path) => {
    const answer = await api.request(method, path);
    expect([400, 404, 405]).toContain(answer.status);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json\b/);
    expect(answer.body).toEqual({ error: { code: expect.any(String), message: expect.any(String) } });
  });

  test.each([
    ['bytes that are no JSON', '{"image_key": '],
    ['nothing at all', ''],
    ['an array', '[]'],
    ['an array of a good body', '[{"image_key":"api/a","face_key":"api/b"}]'],
    ['null', 'null'],
    ['a string', '"api/a"'],
    ['a number', '17'],
    ['true', 'true'],
    ['two documents', '{}{}'],
    ['a comment', '{/* */}'],
    ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d])],
    ['nesting without end', `${'['.repeat(60_000)}`],
    ['deep nesting', `{"image_key":${'['.repeat(20_000)}${']'.repeat(20_000)}}`],
  ])('a body that is %s is `invalid_input`', async (_name, body) => {
    expectError(await api.request('POST', '/face-swap-image', { headers: JSON_TYPE, body }), 'invalid_input');
  });

  test.each([
    ['text/plain'],
    ['application/x-www-form-urlencoded'],
    ['multipart/form-data; boundary=x'],
    ['application/xml'],
    ['nonsense'],
  ])('a body of type %s is `invalid_input`', async (type) => {
    const body = JSON.stringify({ image_key: 'api/a', face_key: 'api/b' });
    const answer = await api.request('POST', '/face-swap-image', { headers: { 'content-type': type }, body });
    expectError(answer, 'invalid_input');
  });

  test('a body of many megabytes where a few hundred bytes are due', async () => {
    const body = JSON.stringify({ image_key: 'api/a', face_key: 'api/b', junk: 'x'.repeat(8 << 20) });
    const answer = await api.request('POST', '/face-swap-image', { headers: JSON_TYPE, body });
    expectError(answer, 'invalid_input', 'input_too_large');
  });

  test('a body that says it is compressed and is not', async () => {
    const headers = { ...JSON_TYPE, 'content-encoding': 'gzip' };
    const answer = await api.request('POST', '/face-swap-image', { headers, body: '{"image_key":"api/a"}' });
    expectError(answer, 'invalid_input');
  });

  test('a request that is no HTTP', async () => {
    const answer = await raw(api.baseUrl, 'GET /api/v1/balance HTTP/1.1\r\nHost: x\r\nno colon here\r\n\r\n');
    expect(answer.status, answer.text).toBe(400);
    expectEnvelope(answer);
  });

  test('headers without end', async () => {
    const lines = Array.from({ length: 400 }, (_, i) => `X-H-${i}: ${'v'.repeat(100)}`).join('\r\n');
    const answer = await raw(api.baseUrl, `GET /api/v1/balance HTTP/1.1\r\nHost: x\r\n${lines}\r\n\r\n`);
    expect(answer.body, answer.text).toEqual({
      error: { code: expect.any(String), message: expect.any(String) },
    });
  });
});

test('a field named like a part of every object changes nothing', async () => {
  const body = '{"__proto__":{"image_key":"api/a","face_key":"api/b"},"constructor":1}';
  expectError(await api.request('POST', '/face-swap-image', { headers: JSON_TYPE, body }), 'invalid_input');
});

test('Bodies are JSON: `application/json` with a charset and +json-free spelling in capitals is accepted', async () => {
  const body = JSON.stringify({ image_key: 'no-prefix', face_key: 'no-prefix' });
  for (const type of [
    'application/json; charset=utf-8',
    'Application/JSON',
    'application/json;charset=UTF-8',
  ]) {
    const answer = await api.request('POST', '/face-swap-image', { headers: { 'content-type': type }, body });
    // The answer must refuse the keys and not the content type.
    expect(expectError(answer, 'invalid_input'), type).toMatch(/_key/);
  }
});
