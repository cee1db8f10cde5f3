import type { Caller } from '@semblance/proto/semblance/control/v1/control';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

let t: TestGateway;
beforeAll(async () => {
  t = await startTestGateway({ keyless: { perMinute: 0, trustedProxies: 1 } });
});
afterAll(() => t.close());
beforeEach(() => {
  t.control.calls.length = 0;
});

/** Returns the caller that the control plane was last asked to judge. */
function judgedCaller(): Caller | undefined {
  const asked = t.control.calls.map(({ request }) => (request as { caller?: Caller }).caller);
  return asked.findLast((caller) => caller !== undefined && caller.keySha256.length > 0);
}

describe('each route', () => {
  it('declares the scope that a key needs, where it takes one', () => {
    for (const { method, path, scope, operation } of t.gateway.routes) {
      const takesKey = operation !== 'internal' && operation.key !== 'none';
      expect(scope !== 'none', `${method} ${path}`).toBe(takesKey);
    }
  });

  it.each([
    ['GET', '/balance', 'read'],
    ['POST', '/face-swap-image', 'submit'],
    ['POST', '/voice/session', 'sessions'],
    ['GET', '/pricing', 'read'],
  ])('%s %s is judged for its scope', async (method, path, scope) => {
    await (await fetch(t.base + path, { method, headers: t.auth })).body?.cancel();
    expect(judgedCaller()?.scope).toBe(scope);
  });
});

describe('the address of a caller', () => {
  it.each([
    ['what the proxy was called from', '198.51.100.7', '198.51.100.7'],
    ['IPv4 that is mapped into IPv6 as IPv4', '::ffff:198.51.100.7', '198.51.100.7'],
    ['IPv6 in its usual form', '2001:DB8:0:0::1', '2001:db8::1'],
    ['never an entry that the client wrote itself', '192.0.2.1, 198.51.100.7', '198.51.100.7'],
  ])('is %s', async (_what, forwarded, address) => {
    await fetch(`${t.base}/balance`, { headers: { ...t.auth, 'x-forwarded-for': forwarded } });
    expect(judgedCaller()?.address).toBe(address);
  });

  it('is the peer without a trusted proxy, whatever the client says', async () => {
    const alone = await startTestGateway();
    try {
      await fetch(`${alone.base}/balance`, { headers: { ...alone.auth, 'x-forwarded-for': '192.0.2.1' } });
      const asked = alone.control.calls.at(-1)?.request as { caller?: Caller };
      expect(asked.caller?.address).toBe('127.0.0.1');
    } finally {
      await alone.close();
    }
  });
});
