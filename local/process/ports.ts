import { createServer } from 'node:net';

/** Below what Linux (32768) and macOS (49152) hand to outgoing connections, which would otherwise take our ports. */
const FIRST = 20_000;
const LAST = 32_000;

/**
 * Chooses free loopback ports, one per name. A port remembered from last time is kept when it is free, so that
 * addresses stay the same from start to start; a taken one is chosen anew.
 *
 * @param remembered ports of the last start, by name
 */
export async function choosePorts<Name extends string>(
  names: readonly Name[],
  remembered: Partial<Record<Name, number>> = {},
): Promise<Record<Name, number>> {
  const chosen: Partial<Record<Name, number>> = {};
  const used = new Set<number>();
  for (const name of names) {
    const port = remembered[name];
    if (port !== undefined && isPort(port) && !used.has(port) && (await isFree(port))) {
      chosen[name] = port;
      used.add(port);
    }
  }
  for (const name of names) {
    if (chosen[name] !== undefined) continue;
    const port = await freePort(used);
    chosen[name] = port;
    used.add(port);
  }
  return chosen as Record<Name, number>;
}

/** A loopback port that nobody listens on now. */
export async function freePort(except: ReadonlySet<number> = new Set()): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (!except.has(port) && (await isFree(port))) return port;
  }
  throw new Error(`no free port between ${FIRST} and ${LAST} on 127.0.0.1`);
}

/** Whether a server can listen on the port, on loopback. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}

function isPort(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value < 65_536;
}
