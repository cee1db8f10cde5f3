import { once } from 'node:events';
import { connect } from 'node:net';
import { ApiError } from '@semblance/common/errors';
import { parseRaw, startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';

let t: TestGateway;
beforeAll(async () => {
  t = await startTestGateway();
});
afterAll(() => t.close());
beforeEach(() => {
  t.control.failures.clear();
  t.control.calls.length = 0;
});

const BODIES = [
  '/face-swap-image',
  '/avatar',
  '/estimate',
  '/jobs/job-06e2tq8mdkrv1v7bz7mx0q0k3c/cancel',
  '/voice/session',
  '/full-live-swap/session',
  '/uploads',
];

/** Sends the head of a request with a body, and nothing of the body. Returns the answer. */
async function sendHead(path: string, key: string): Promise<{ status: number; body: string }> {
  const socket = connect(t.port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  let received = '';
  socket.on('data', (chunk) => {
    received += chunk;
  });
  socket.write(
    `POST /api/v1${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\n`,
  );
  while (!received.includes('}}')) await once(socket, 'data');
  return parseRaw(received);
}

describe('a body', () => {
  it.each(BODIES)('of %s is not read before the key is judged', async (path) => {
    const { status, body } = await sendHead(path, 'wrong');
    expect([status, JSON.parse(body)]).toMatchObject([401, { error: { code: 'unauthorized' } }]);
  });

  it('is read at once where the key was found valid before, and no call is counted twice', async () => {
    const send = () =>
      fetch(`${t.base}/estimate`, {
        method: 'POST',
        headers: { ...t.auth, 'content-type': 'application/json' },
        body: '{}',
      });
    await send();
    const checks = t.control.checks;
    for (let i = 0; i < 3; i++) expect((await send()).status).toBe(400);
    expect(t.control.checks).toBe(checks);
    expect(t.control.count('authorize')).toBe(4);
  });

  it('is not read any more once the key was refused', async () => {
    const send = () =>
      fetch(`${t.base}/voice/session`, { method: 'POST', headers: t.auth }).then(({ status }) => status);
    await send();
    const checks = t.control.checks;
    t.control.failures.set('openSession', new ApiError('unauthorized', 'revoked'));
    expect(await send()).toBe(401);
    expect(t.control.checks).toBe(checks);
    expect(await send()).toBe(401);
    expect(t.control.checks).toBe(checks + 1);
  });
});
