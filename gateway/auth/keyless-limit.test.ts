import { TEST_KEY } from '@semblance/testkit/gateway/control-double';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let t: TestGateway;
let nowMs = 0;
beforeAll(async () => {
  t = await startTestGateway({ keyless: { perMinute: 6, trustedProxies: 1, now: () => nowMs } });
});
afterAll(() => t.close());

/** Asks as a client of the network. */
async function ask(network: string, key: string | undefined, path = '/balance') {
  const headers = { 'x-forwarded-for': network, ...(key ? { authorization: `Bearer ${key}` } : {}) };
  const { status, headers: answered } = await fetch(t.base + path, { headers });
  return { status, retryAfter: answered.get('retry-after') };
}

async function spend(network: string): Promise<void> {
  for (let i = 0; i < 6; i++) expect((await ask(network, i % 2 ? 'wrong' : undefined)).status).toBe(401);
}

describe('requests without a valid key', () => {
  it('are answered as many times as a network may be wrong, and again as time passes', async () => {
    await spend('192.0.2.1');
    const judged = t.control.calls.length;
    expect(await ask('192.0.2.1', 'wrong')).toEqual({ status: 429, retryAfter: '10' });
    expect(t.control.calls.length).toBe(judged);
    expect((await ask('192.0.2.2', 'wrong')).status).toBe(401);
    nowMs += 9_999;
    expect(await ask('192.0.2.1', undefined)).toEqual({ status: 429, retryAfter: '1' });
    nowMs += 1;
    expect((await ask('192.0.2.1', 'wrong')).status).toBe(401);
    expect((await ask('192.0.2.1', 'wrong')).status).toBe(429);
    nowMs += 3_600_000;
    await spend('192.0.2.1');
    expect((await ask('192.0.2.1', 'wrong')).status).toBe(429);
  });

  it('hold back no key that was found valid before, and no link', async () => {
    expect((await ask('192.0.2.3', TEST_KEY)).status).toBe(200);
    await spend('192.0.2.3');
    expect((await ask('192.0.2.3', 'wrong')).status).toBe(429);
    expect((await ask('192.0.2.3', TEST_KEY)).status).toBe(200);
    const link = await fetch(`${t.origin}/files/api/x`, { headers: { 'x-forwarded-for': '192.0.2.3' } });
    expect(link.status).toBe(403);
  });

  it('are not made valid by a page that every key may read', async () => {
    expect((await ask('192.0.2.4', 'wrong', '/openapi.json')).status).toBe(200);
    await spend('192.0.2.4');
    expect((await ask('192.0.2.4', 'wrong')).status).toBe(429);
  });
});
