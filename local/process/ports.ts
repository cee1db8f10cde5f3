import { createSocket, type Socket } from 'node:dgram';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

/**
 * Ports below those that Linux (from 32768) and macOS (from 49152) give to outgoing connections, which would
 * otherwise take them.
 */
const USUAL: Range = { first: 20_000, last: 31_999 };
/** Smallest range of ports for which the usual one is left. */
const ENOUGH = 2_000;

type Range = { first: number; last: number };

/**
 * Ports that this process has chosen, each with the UDP socket that reserves it; undefined without UDP. A chosen
 * port is free to everybody for seconds until its service listens, and again during a restart. So that no other
 * stack or test chooses it, the UDP port of the same number is held; nothing else here uses UDP. The kernel
 * releases it when this process dies, and no file is left behind.
 */
const reserved = new Map<number, Socket | undefined>();

/**
 * Chooses free loopback ports, one per name, and reserves them. A remembered port is kept if it is free, so that
 * addresses stay the same from start to start; a taken one is replaced.
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
    if (port === undefined || !isPort(port) || used.has(port)) continue;
    if (!(reserved.has(port) || (await reserve(port)))) continue;
    if (await isFree(port)) {
      chosen[name] = port;
      used.add(port);
    } else {
      await releasePorts([port]);
    }
  }
  for (const name of names) chosen[name] ??= await freePort();
  return chosen as Record<Name, number>;
}

/**
 * Reserves and returns a loopback port on which nobody listens. No other caller, here or in another process, gets
 * it.
 */
export async function freePort(): Promise<number> {
  const { first, last } = range();
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = first + Math.floor(Math.random() * (last - first + 1));
    if (reserved.has(port) || !(await reserve(port))) continue;
    if (await isFree(port)) return port;
    await releasePorts([port]);
  }
  throw new Error(`no free port between ${first} and ${last} on 127.0.0.1`);
}

/** Releases reserved ports, so that others may choose them. Ports that are not reserved are skipped. */
export async function releasePorts(ports: Iterable<number>): Promise<void> {
  for (const port of ports) {
    const socket = reserved.get(port);
    reserved.delete(port);
    if (socket) await new Promise<void>((resolve) => socket.close(resolve));
  }
}

/** Returns whether a server can listen on the port, on loopback. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** Reserves a port; false when another process has reserved it. Without UDP each process keeps only its own list. */
function reserve(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4');
    const keep = (held: Socket | undefined) => {
      reserved.set(port, held);
      resolve(true);
    };
    socket.once('error', (error: NodeJS.ErrnoException) => {
      socket.close();
      if (error.code === 'EADDRINUSE') resolve(false);
      else keep(undefined);
    });
    socket.bind({ port, address: '127.0.0.1', exclusive: true }, () => {
      socket.removeAllListeners('error');
      // Datagrams from strangers do not matter.
      socket.on('error', () => {});
      socket.unref();
      keep(socket);
    });
  });
}

let chosenRange: Range | undefined;

function range(): Range {
  chosenRange ??= rangeBeside(outgoing());
  return chosenRange;
}

/**
 * Returns the range to choose from, outside `taken`, the ports of outgoing connections. Returns the usual range
 * when the rest is too small.
 */
export function rangeBeside(taken: Range | undefined): Range {
  if (!taken || taken.first > USUAL.last || taken.last < USUAL.first) return USUAL;
  const below = { first: 1_024, last: taken.first - 1 };
  const above = { first: taken.last + 1, last: 65_535 };
  const larger = below.last - below.first > above.last - above.first ? below : above;
  return larger.last - larger.first + 1 >= ENOUGH ? larger : USUAL;
}

/** Returns the ports that this Linux gives to outgoing connections; undefined on another system. */
function outgoing(): Range | undefined {
  try {
    const text = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8');
    const [first, last] = text.trim().split(/\s+/).map(Number);
    return first && last ? { first, last } : undefined;
  } catch {
    return undefined;
  }
}

function isPort(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value < 65_536;
}
