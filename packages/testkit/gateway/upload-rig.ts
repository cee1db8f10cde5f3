import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { FORM_TYPE, type FormPart, formBytes } from './form.ts';
import { startTestGateway, type TestGateway } from './test-gateway.ts';

export const KIB = 1024;
/**
 * Size limits, scaled down so that a test exceeds them quickly. The real limits are tested where they are defined.
 */
export const sizeLimits = { image: 64 * KIB, audio: 64 * KIB, video: 256 * KIB };

export type RawSocket = Socket & { received: string };

/**
 * Creates one gateway for the upload tests of a file, and helpers. After every test it checks that each reservation
 * was completed or given up, and that only completed uploads are stored.
 */
export function uploadRig() {
  let t: TestGateway;
  beforeAll(async () => {
    t = await startTestGateway({ sizeLimits, timing: { uploadIdle: 30_000 } });
  });
  afterAll(() => t.close());
  beforeEach(() => {
    t.control.completed.clear();
    t.control.aborted.length = 0;
  });
  afterEach(async () => {
    t.control.failures.clear();
    t.control.pauses.clear();
    await expect.poll(() => t.control.reserved.size).toBe(0);
    await expect.poll(async () => (await t.files()).length).toBe(t.control.completed.size);
    for (const key of t.control.completed.keys()) await t.store.delete(key);
  });

  const post = (body: Buffer | ReadableStream, headers: Record<string, string> = {}) =>
    fetch(`${t.base}/uploads`, {
      method: 'POST',
      headers: { ...t.auth, 'content-type': FORM_TYPE, ...headers },
      body,
      ...(body instanceof ReadableStream ? { duplex: 'half' as const } : {}),
    } as RequestInit);

  return {
    /** Exists from the first test on. */
    get gateway(): TestGateway {
      return t;
    },
    post,
    send: (...parts: FormPart[]) => post(formBytes(parts)),
    async expectRefused(response: Response, code: string, status = 400) {
      const body = (await response.json()) as { error: { code: string; message: string } };
      expect(body.error, body.error?.message).toMatchObject({ code });
      expect(response.status).toBe(status);
      expect(t.control.completed.size).toBe(0);
    },
    requestHead(...headers: string[]): string {
      const lines = [
        'POST /api/v1/uploads HTTP/1.1',
        'Host: gateway.test',
        `Authorization: ${t.auth.authorization}`,
        `Content-Type: ${FORM_TYPE}`,
        ...headers,
      ];
      return `${lines.join('\r\n')}\r\n\r\n`;
    },
    /** @param allowHalfOpen whether to keep sending after the server ended its side */
    open(port = t.port, allowHalfOpen = false): RawSocket {
      const options = { port, host: '127.0.0.1', allowHalfOpen };
      const socket = Object.assign(connect(options), { received: '' });
      socket.on('data', (chunk) => {
        socket.received += chunk.toString('latin1');
      });
      socket.on('error', () => {});
      return socket;
    },
  };
}
