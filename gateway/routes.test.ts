import {
  parseRaw,
  sendRaw,
  startTestGateway,
  type TestGateway,
} from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let t: TestGateway;
beforeAll(async () => {
  t = await startTestGateway();
});
afterAll(() => t.close());

async function errorOf(response: Response) {
  expect(response.headers.get('content-type')).toMatch(/^application\/json/);
  expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  const body = (await response.json()) as { error: { code: string; message: string } };
  expect(Object.keys(body)).toEqual(['error']);
  expect(Object.keys(body.error).sort()).toEqual(['code', 'message']);
  expect(body.error.message).not.toBe('');
  return body.error.code;
}

describe('"Every error has the envelope {error: {code, message}}"', () => {
  it.each([
    ['GET', '/'],
    ['GET', '/api/v1'],
    ['GET', '/api/v1/'],
    ['GET', '/api/v1/nothing'],
    ['GET', '/api/v1/Balance'],
    ['GET', '/api/v1/balance//'],
    ['GET', '/api/v2/balance'],
    ['GET', '/api/v1/job'],
    ['GET', '/api/v1/jobs//'],
    ['GET', '/api/v1/jobs/a/b'],
    ['PROPFIND', '/api/v1/balance'],
  ])('%s %s is not found', async (method, path) => {
    const response = await fetch(t.origin + path, { method });
    expect(response.status).toBe(404);
    expect(await errorOf(response)).toBe('not_found');
  });

  it.each([
    ['DELETE', '/api/v1/balance', 'GET, HEAD, OPTIONS'],
    ['GET', '/api/v1/uploads', 'POST, OPTIONS'],
    ['GET', '/api/v1/face-swap-image', 'POST, OPTIONS'],
    ['PUT', '/api/v1/jobs/job-1', 'GET, HEAD, OPTIONS'],
    ['POST', '/files/api/x', 'DELETE, GET, HEAD, PUT, OPTIONS'],
  ])('%s %s names the methods that are allowed', async (method, path, allowed) => {
    const response = await fetch(t.origin + path, { method });
    expect(response.status).toBe(404);
    expect(response.headers.get('allow')).toBe(allowed);
    expect(await errorOf(response)).toBe('not_found');
  });

  it.each([
    ['/api/v1/balance', 'GET, HEAD, OPTIONS'],
    ['/api/v1/jobs/job-1/media/', 'DELETE, OPTIONS'],
  ])('OPTIONS %s answers the methods, and no page of another origin is let in', async (path, allowed) => {
    const response = await fetch(t.origin + path, { method: 'OPTIONS' });
    expect([response.status, response.headers.get('allow')]).toEqual([204, allowed]);
    expect([...response.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
  });

  it('OPTIONS of what there is not is not found', async () => {
    expect((await fetch(`${t.origin}/api/v1/nothing`, { method: 'OPTIONS' })).status).toBe(404);
  });

  it('a slash at the end names the same resource', async () => {
    const [plain, slashed] = await Promise.all(
      ['/balance', '/balance/?x=/'].map((path) => fetch(t.base + path, { headers: t.auth })),
    );
    expect([plain?.status, slashed?.status]).toEqual([200, 200]);
    expect(await slashed?.json()).toEqual(await plain?.json());
  });

  it.each([
    ['no HTTP at all', 'hello there\r\n\r\n'],
    ['a bad header', 'GET /api/v1/balance HTTP/1.1\r\nHost x\r\n\r\n'],
    [
      'headers over 16 KiB',
      `GET /api/v1/balance HTTP/1.1\r\nHost: x\r\nX-Long: ${'y'.repeat(20_000)}\r\n\r\n`,
    ],
    ['a bad Content-Length', 'POST /api/v1/uploads HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n'],
    [
      'two lengths',
      'POST /api/v1/uploads HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
    ],
    ['a target that is no URL', 'GET http://[::1/api/v1/balance HTTP/1.1\r\nHost: x\r\n\r\n'],
    [
      'a target that is no URL, to be upgraded',
      'GET http://[::1/api/v1/voice/x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    ],
    ['a strange Expect', 'POST /api/v1/uploads HTTP/1.1\r\nHost: x\r\nExpect: a-pony\r\n\r\n'],
  ])('malformed HTTP: %s', async (_name, bytes) => {
    const answer = parseRaw(await sendRaw(t.port, bytes));
    expect(answer.status).toBe(400);
    expect(answer.headers['content-type']).toMatch(/^application\/json/);
    expect(JSON.parse(answer.body)).toMatchObject({ error: { code: 'invalid_input' } });
  });

  it('CONNECT is refused with it too', async () => {
    const answer = parseRaw(await sendRaw(t.port, 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n'));
    expect(answer.status).toBe(404);
    expect(JSON.parse(answer.body)).toMatchObject({ error: { code: 'not_found' } });
  });

  it('a request without Host is served', async () => {
    const answer = parseRaw(
      await sendRaw(t.port, 'GET /api/v1/pricing HTTP/1.1\r\nConnection: close\r\n\r\n'),
    );
    expect(answer.status).toBe(200);
  });

  it('a malformed escape in the path is an unknown job, not a failure', async () => {
    const raw = `GET /api/v1/jobs/%zz%00 HTTP/1.1\r\nHost: x\r\nAuthorization: ${t.auth.authorization}\r\nConnection: close\r\n\r\n`;
    const answer = parseRaw(await sendRaw(t.port, raw));
    expect(answer.status).toBe(404);
    expect(JSON.parse(answer.body)).toMatchObject({ error: { code: 'not_found' } });
  });

  it('a failure inside is 500 internal_error without its internals', async () => {
    t.control.pricing = { ...t.control.pricing, version: 1n, capabilities: [{} as never] };
    t.control.pricing.capabilities[0] = {
      capability: 'x',
      feature: 'x',
      enabled: true,
      unit: 'image',
      rates: [],
      minimumMicros: 2n ** 62n,
      hold: undefined,
    };
    const response = await fetch(`${t.base}/pricing`);
    t.control.pricing.capabilities = [];
    expect(response.status).toBe(500);
    expect(await response.json()).toEqual({
      error: { code: 'internal_error', message: 'The gateway failed. Nothing is billed; try again.' },
    });
  });
});

describe('the control plane in trouble', () => {
  it('that fails is 502 internal_error', async () => {
    t.control.failures.set('getBalance', new Error('secret internals'));
    const response = await fetch(`${t.base}/balance`, { headers: t.auth });
    t.control.failures.clear();
    expect(response.status).toBe(502);
    expect(await response.clone().text()).not.toContain('secret internals');
    expect(await errorOf(response)).toBe('internal_error');
  });

  it('that hangs is 502 at the deadline', async () => {
    const own = await startTestGateway({ timing: { control: 700 } });
    let release = () => {};
    own.control.pauses.set('getBalance', new Promise<void>((resolve) => (release = resolve)));
    const response = await fetch(`${own.base}/balance`, { headers: own.auth });
    release();
    expect(response.status).toBe(502);
    expect(await errorOf(response)).toBe('internal_error');
    await own.close();
  });

  it('that is gone is 502 at once, and it is found again when it is back', async () => {
    const { port } = t.control;
    await t.control.close();
    for (let i = 0; i < 3; i++) {
      const response = await fetch(`${t.base}/balance`, { headers: t.auth });
      expect(response.status).toBe(502);
      expect(await errorOf(response)).toBe('internal_error');
    }
    await t.control.start(port);
    await expect.poll(async () => (await fetch(`${t.base}/balance`, { headers: t.auth })).status).toBe(200);
  });
});

describe('authentication', () => {
  it.each([
    ['GET', '/balance'],
    ['GET', '/jobs/job-1'],
    ['POST', '/uploads'],
    ['POST', '/face-swap-image'],
    ['POST', '/character-swap'],
    ['POST', '/face-swap'],
    ['POST', '/motion-control'],
    ['POST', '/avatar'],
    ['POST', '/lip-sync'],
    ['POST', '/full-live-swap/session'],
    ['POST', '/voice/session'],
    ['GET', '/voices'],
  ])('"A missing, unknown or revoked key yields unauthorized (401)": %s %s', async (method, path) => {
    const body = method === 'POST' ? 'this is not even JSON' : undefined;
    for (const authorization of [
      undefined,
      'Bearer unknown',
      'Bearer',
      'Basic dTpw',
      'Bearer a b',
      'sk_test',
    ]) {
      const response = await fetch(t.base + path, {
        method,
        body,
        headers: authorization ? { authorization } : {},
      });
      expect(response.status, `${authorization}`).toBe(401);
      expect(await errorOf(response)).toBe('unauthorized');
    }
  });

  it('takes the scheme in any case', async () => {
    const headers = { authorization: t.auth.authorization.replace('Bearer', 'bEARER') };
    expect((await fetch(`${t.base}/balance`, { headers })).status).toBe(200);
  });

  it('sends the hash of the key on, never the key', async () => {
    await fetch(`${t.base}/balance`, { headers: t.auth });
    const request = t.control.calls.at(-1)?.request as { caller: { keySha256: Buffer } };
    expect(request.caller.keySha256).toHaveLength(32);
  });

  it('comes before the body is asked for: Expect: 100-continue is answered 401, never 100', async () => {
    const head =
      'POST /api/v1/uploads HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 99999\r\n';
    const text = await sendRaw(t.port, `${head}Content-Type: multipart/form-data; boundary=b\r\n\r\n`);
    expect(text).not.toContain('100 Continue');
    expect(parseRaw(text).status).toBe(401);
    expect(parseRaw(text).headers.connection).toBe('close');
  });

  it('"GET /pricing accepts requests without a key", but not with a wrong one', async () => {
    expect((await fetch(`${t.base}/pricing`)).status).toBe(200);
    expect((await fetch(`${t.base}/pricing`, { headers: t.auth })).status).toBe(200);
    const wrong = await fetch(`${t.base}/pricing`, { headers: { authorization: 'Bearer wrong' } });
    expect(wrong.status).toBe(401);
    const malformed = await fetch(`${t.base}/pricing`, { headers: { authorization: 'wrong' } });
    expect(malformed.status).toBe(401);
  });
});

describe('headers of every answer', () => {
  it('carries a Request-Id: the sane one sent, else a new one, known to the control plane too', async () => {
    const own = await fetch(`${t.base}/balance`, { headers: { ...t.auth, 'request-id': 'mine-42' } });
    expect(own.headers.get('request-id')).toBe('mine-42');
    expect(t.control.calls.at(-1)?.requestId).toBe('mine-42');
    const insane = await fetch(`${t.base}/balance`, { headers: { ...t.auth, 'request-id': 'a b' } });
    expect(insane.headers.get('request-id')).toMatch(/^[0-9a-f-]{36}$/);
    expect((await fetch(`${t.origin}/nothing`)).headers.get('request-id')).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('tells the rate limit on answers and refusals', async () => {
    for (const path of ['/balance', '/jobs/job-unknown']) {
      const { headers } = await fetch(t.base + path, { headers: t.auth });
      expect(headers.get('ratelimit-limit')).toBe('60');
      expect(headers.get('ratelimit-remaining')).toBe('59');
      expect(headers.get('ratelimit-reset')).toBe('32');
    }
  });

  it('"Exceeding it returns rate_limited (429)", saying when to come back', async () => {
    const { ApiError } = await import('@semblance/common/errors');
    t.control.failures.set('getBalance', new ApiError('rate_limited', 'Too fast.'));
    const limited = await fetch(`${t.base}/balance`, { headers: t.auth });
    t.control.failures.set('getBalance', new ApiError('at_capacity', 'Saturated.'));
    const saturated = await fetch(`${t.base}/balance`, { headers: t.auth });
    t.control.failures.clear();
    expect([limited.status, limited.headers.get('retry-after')]).toEqual([429, '32']);
    expect(await errorOf(limited)).toBe('rate_limited');
    expect([saturated.status, saturated.headers.get('retry-after')]).toEqual([429, '2']);
    expect(await errorOf(saturated)).toBe('at_capacity');
  });
});

describe('reads', () => {
  it('GET /jobs/{job_id} answers the job record', async () => {
    t.control.jobs.set('job-1', {
      id: 'job-1',
      status: 'queued',
      outputUrl: undefined,
      chargedMicros: undefined,
    });
    const response = await fetch(`${t.base}/jobs/job-1`, { headers: t.auth });
    expect(response.status).toBe(200);
    expect(await response.text()).toBe(
      '{"id":"job-1","status":"queued","output_url":null,"charged_usd":null,"error":null}',
    );
    const head = await fetch(`${t.base}/jobs/job-1`, { method: 'HEAD', headers: t.auth });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, '82']);
  });

  it('"Unknown job, or a job belonging to another account: not_found (404)"', async () => {
    for (const id of ['job-2', 'x'.repeat(300), '..%2F', '%00']) {
      const response = await fetch(`${t.base}/jobs/${id}`, { headers: t.auth });
      expect(response.status).toBe(404);
      expect(await errorOf(response)).toBe('not_found');
    }
  });

  it('GET /balance: "All fields are numbers in USD"', async () => {
    const response = await fetch(`${t.base}/balance`, { headers: t.auth });
    expect(await response.json()).toEqual({
      balance_usd: 12.5,
      total_spent_usd: 0.000001,
      total_topped_up_usd: 12.500001,
      spent_this_week_usd: 0.000001,
      spent_this_month_usd: 0.000001,
      spent_this_year_usd: 0.000001,
      held_usd: 0.5,
      reserved_usd: 2.5,
      available_usd: 10,
    });
  });

  it('GET /pricing answers the rate card', async () => {
    t.control.pricing = {
      currency: 'USD',
      version: 7n,
      effectiveAt: '2026-01-01T00:00:00.000Z',
      capabilities: [
        {
          capability: 'face-swap-image',
          feature: 'photo_swap',
          enabled: true,
          unit: 'image',
          rates: [{ when: {}, rateMicros: 20_000n }],
          minimumMicros: 10_000n,
          hold: { units: 1 },
        },
      ],
    };
    const response = await fetch(`${t.base}/pricing`);
    expect(await response.json()).toEqual({
      currency: 'USD',
      version: 7,
      effective_at: '2026-01-01T00:00:00.000Z',
      capabilities: [
        {
          capability: 'face-swap-image',
          feature: 'photo_swap',
          enabled: true,
          unit: 'image',
          rates: [{ when: {}, rate_usd: 0.02 }],
          minimum_usd: 0.01,
          hold: { units: 1 },
        },
      ],
    });
  });
});

describe('what is told of requests', () => {
  it('logs one line each, by route template, without secrets', async () => {
    t.logLines.length = 0;
    await fetch(`${t.base}/jobs/job-secret-id?x=secret`, { headers: { ...t.auth, 'request-id': 'r1' } });
    await fetch(`${t.origin}/files/api/secret?expires=1&signature=secret`);
    await expect.poll(() => t.logLines.length).toBe(2);
    expect(JSON.parse(t.logLines[0] ?? '')).toMatchObject({
      requestId: 'r1',
      method: 'GET',
      route: '/api/v1/jobs/:job_id',
      status: 404,
      code: 'not_found',
    });
    expect(t.logLines.join()).not.toMatch(/secret|sk_test/);
  });

  it('counts and times them by route and status', async () => {
    const text = await t.registry.metrics();
    expect(text).toMatch(/request_seconds_count\{method="GET",route="\/api\/v1\/balance",status="200"\} \d+/);
    expect(text).toMatch(/semblance_gateway_requests_in_flight \d/);
    expect(text).toMatch(/semblance_gateway_connections \d/);
  });
});
