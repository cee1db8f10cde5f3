import { afterEach, describe, expect, it } from 'vitest';
import { type HealthServer, startHealthServer } from './health.ts';

let server: HealthServer | undefined;
afterEach(async () => {
  await server?.close();
});

const listen = { host: '127.0.0.1', port: 0 };
const get = async (path: string) => {
  const response = await fetch(`http://127.0.0.1:${server?.port}${path}`);
  return { status: response.status, body: await response.text() };
};

describe('startHealthServer', () => {
  it('is live while a readiness check fails, and names the check and the cause', async () => {
    const ready = {
      postgres: () => undefined,
      nats: async () => {
        throw new Error('no answer', { cause: new Error('ECONNREFUSED') });
      },
    };
    server = await startHealthServer({ listen, service: 'test', ready });
    expect((await get('/healthz')).status).toBe(200);
    const { status, body } = await get('/readyz?verbose');
    expect(status).toBe(503);
    expect(body).toBe('postgres: ok\nnats: no answer: ECONNREFUSED\nfailing\n');
  });

  it('serves the metrics of its registry with the service label', async () => {
    server = await startHealthServer({ listen, service: 'test', ready: {} });
    const { status, body } = await get('/metrics');
    expect(status).toBe(200);
    expect(body).toMatch(/process_resident_memory_bytes\{service="test"\} \d+/);
  });

  it('answers 404 elsewhere, and rejects when its port is taken', async () => {
    server = await startHealthServer({ listen, service: 'test', ready: {} });
    expect((await get('/')).status).toBe(404);
    const taken = { host: '127.0.0.1', port: server.port };
    await expect(startHealthServer({ listen: taken, service: 'test', ready: {} })).rejects.toThrow(
      /EADDRINUSE/,
    );
  });
});
