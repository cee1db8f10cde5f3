import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

let t: TestGateway;
beforeAll(async () => {
  t = await startTestGateway();
});
afterAll(() => t.close());
beforeEach(() => {
  t.control.calls.length = 0;
  t.control.usage = [];
});

const get = async (path: string, headers: Record<string, string> = t.auth) => {
  const response = await fetch(t.base + path, { headers });
  return { status: response.status, headers: response.headers, body: (await response.json()) as unknown };
};
const asked = () => {
  const { caller: _, ...request } = (t.control.calls.at(-1)?.request ?? {}) as Record<string, unknown>;
  return request;
};

describe('GET /usage', () => {
  it('answers entries with the fields of the specification', async () => {
    t.control.usage = [
      {
        id: 'job-2',
        capability: 'face-swap',
        status: 'failed',
        chargedMicros: 0n,
        reason: 'cancelled',
        createdAt: '2026-01-31T09:30:00.123456Z',
      },
      {
        id: 'job-1',
        capability: 'face-swap-image',
        status: 'succeeded',
        chargedMicros: 40_000n,
        reason: undefined,
        createdAt: '2026-01-30T09:30:00.000000Z',
      },
    ];
    const { status, headers, body } = await get('/usage');
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
    expect(JSON.stringify(body)).toBe(
      JSON.stringify([
        {
          id: 'job-2',
          endpoint: 'face-swap',
          feature: 'video_swap',
          status: 'failed',
          charged_usd: 0,
          reason: 'cancelled',
          created_at: '2026-01-31T09:30:00.123456Z',
        },
        {
          id: 'job-1',
          endpoint: 'face-swap-image',
          feature: 'photo_swap',
          status: 'succeeded',
          charged_usd: 0.04,
          reason: null,
          created_at: '2026-01-30T09:30:00.000000Z',
        },
      ]),
    );
  });

  it('asks for 100 of all times unless told otherwise', async () => {
    await get('/usage');
    expect(asked()).toEqual({ limit: 100, range: { fromMicros: undefined, toMicros: undefined } });
    await get('/usage?limit=500&from=1970-01-01&to=1970-01-01T01:00:00%2B01:00&colour=red');
    expect(asked()).toEqual({ limit: 500, range: { fromMicros: 0n, toMicros: 0n } });
  });

  it.each([
    ['limit=0', 'limit must be a whole number from 1 to 500'],
    ['limit=501', 'limit must be'],
    ['limit=', 'limit must be'],
    ['limit=ten', 'limit must be'],
    ['limit=1.0', 'limit must be'],
    ['limit=1e2', 'limit must be'],
    ['limit=-5', 'limit must be'],
    ['limit=%205', 'limit must be'],
    ['limit=99999999999999999999', 'limit must be'],
    ['limit=5&limit=6', 'limit must be given once'],
    ['from=yesterday', 'from must be a date'],
    ['from=', 'from must be a date'],
    ['to=2026-02-30', 'to must be a date'],
    ['to=2026-01-01T00:00:00', 'to must be a date'],
    ['to=2026-01-01T00:00:00+01:00', 'with "+" written %2B'],
    ['from=%00', 'from must be a date'],
    ['from=a&from=b', 'from must be given once'],
    ['from=2026-01-02&to=2026-01-01', 'from must not be later than to'],
    ['limit=x&from=x&to=x', 'limit must be a whole number from 1 to 500; from must be'],
  ])('%s is invalid_input naming the field, and counts as a call', async (query, message) => {
    const { status, body, headers } = await get(`/usage?${query}`);
    expect(status).toBe(400);
    expect(body).toEqual({ error: { code: 'invalid_input', message: expect.stringContaining(message) } });
    expect(headers.get('ratelimit-limit')).toBe('60');
    expect(t.control.calls.map(({ method }) => method)).toEqual(['authorize']);
  });

  it('tells who may not ask nothing but that', async () => {
    for (const headers of [{}, { authorization: 'Bearer wrong' }] as Record<string, string>[]) {
      const { status, body } = await get('/usage?limit=x', headers);
      expect([status, body]).toMatchObject([401, { error: { code: 'unauthorized' } }]);
    }
  });
});

describe('GET /usage/summary', () => {
  it('answers the totals with the fields of the specification', async () => {
    const { status, body } = await get('/usage/summary?from=2026-01-01');
    expect(status).toBe(200);
    expect(JSON.stringify(body)).toBe(
      JSON.stringify({
        total_calls: 6,
        succeeded: 3,
        failed: 1,
        in_flight: 2,
        total_spent_usd: 0.12,
        per_feature: [{ feature: 'photo_swap', calls: 6, spend_usd: 0.12 }],
      }),
    );
    expect(asked()).toEqual({
      range: { fromMicros: BigInt(Date.parse('2026-01-01')) * 1000n, toMicros: undefined },
    });
  });

  it('refuses what is no moment', async () => {
    expect(await get('/usage/summary?to=soon')).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_input', message: expect.stringContaining('to must be a date') } },
    });
  });
});
