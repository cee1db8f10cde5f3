import { createServer, type Server } from 'node:net';
import { runScript } from '@semblance/testkit/common/run-script';
import { afterEach, describe, expect, it } from 'vitest';
import { choosePorts, freePort, isFree, rangeBeside, releasePorts } from './ports.ts';

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

async function occupy(port?: number): Promise<number> {
  port ??= await freePort();
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

  it('gives no port to two processes, whether one listens there yet or not', async () => {
    const module = JSON.stringify(new URL('./ports.ts', import.meta.url).href);
    const mine = await choosePorts(['a', 'b']);
    const chosen = (remembered: object) =>
      runScript(`
        import { choosePorts } from ${module};
        console.log(JSON.stringify(await choosePorts(['a', 'b'], ${JSON.stringify(remembered)})));
      `).output.then((text) => JSON.parse(text) as typeof mine);
    const theirs = Object.values(await chosen(mine));
    for (const port of Object.values(mine)) expect(theirs).not.toContain(port);
    await releasePorts([mine.a]);
    expect((await chosen(mine)).a).toBe(mine.a);
  });

  it.each([
    [undefined, 20_000, 31_999],
    [{ first: 32_768, last: 60_999 }, 20_000, 31_999],
    [{ first: 10_000, last: 60_999 }, 1_024, 9_999],
    [{ first: 1_024, last: 40_000 }, 40_001, 65_535],
    [{ first: 1_024, last: 65_535 }, 20_000, 31_999],
  ])('chooses beside the ports %o of outgoing connections', (outgoing, first, last) => {
    expect(rangeBeside(outgoing)).toEqual({ first, last });
  });
});
