import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { isFree } from '@semblance/local/process/ports';
import { afterEach, expect, it } from 'vitest';
import { onFreePort } from './start.ts';

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server[Symbol.asyncDispose]();
});

async function occupy(port: number): Promise<void> {
  const server = createServer().listen(port, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
}

it('starts a server elsewhere when a stranger took its port, and only then', async () => {
  const tried: number[] = [];
  const started = onFreePort(undefined, async (port) => {
    tried.push(port);
    if (tried.length === 1) await occupy(port);
    if (!(await isFree(port))) throw new Error('EADDRINUSE');
    return port;
  });
  expect(await started).toBe(tried[1]);
  expect(tried).toHaveLength(2);
  for (const given of [undefined, tried[1]]) {
    let starts = 0;
    const failed = onFreePort(given, async () => {
      starts++;
      throw new Error('no such flag');
    });
    await expect(failed).rejects.toThrow('no such flag');
    expect(starts).toBe(1);
  }
});
