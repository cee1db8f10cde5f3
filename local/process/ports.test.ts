import { createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { choosePorts, freePort, isFree } from './ports.ts';

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

async function occupy(): Promise<number> {
  const port = await freePort();
  const server = createServer();
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return port;
}

describe('ports', () => {
  it('chooses a free port of its own for each name', async () => {
    const ports = await choosePorts(['a', 'b', 'c']);
    expect(new Set(Object.values(ports)).size).toBe(3);
    for (const port of Object.values(ports)) expect(await isFree(port)).toBe(true);
  });

  it('keeps what it chose last time', async () => {
    const first = await choosePorts(['a', 'b']);
    expect(await choosePorts(['a', 'b'], first)).toEqual(first);
  });

  it('chooses anew what somebody else has taken since', async () => {
    const taken = await occupy();
    const free = await freePort();
    const ports = await choosePorts(['a', 'b'], { a: taken, b: free });
    expect(ports.b).toBe(free);
    expect(ports.a).not.toBe(taken);
    expect(await isFree(taken)).toBe(false);
  });

  it('never gives one port to two names, nor believes nonsense', async () => {
    const free = await freePort();
    const ports = await choosePorts(['a', 'b', 'c'], { a: free, b: free, c: 'x' as unknown as number });
    expect(ports.a).toBe(free);
    expect(new Set(Object.values(ports)).size).toBe(3);
  });
});
