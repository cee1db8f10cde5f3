import { createSocket, type Socket } from 'node:dgram';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

/** Below what Linux (32768) and macOS (49152) hand to outgoing connections, which would otherwise take our ports. */
const USUAL: Range = { first: 20_000, last: 31_999 };
/** Fewer ports than this are not worth leaving the usual ones for. */
const ENOUGH = 2_000;

type Range = { first: number; last: number };

/**
 * The ports this process has chosen. Between choosing a port and the moment when its service listens there, seconds
 * pass in which it is free to everybody, and while a service is started again likewise. So that no other stack and no
 * other test chooses it meanwhile, the UDP port of the same number, which nothing else here uses, is held: by the
 * kernel, for as long as this process lives, and without a file that could be left behind.
 */
const reserved = new Map<number, Socket | undefined>();

/**
 * Chooses free loopback ports, one per name, and reserves them. A port remembered from last time is kept when it is
 * free, so that addresses stay the same from start to start; a taken one is chosen anew.
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

/** A loopback port that nobody listens on now; nobody else who asks here or in another process is given it. */
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

/** Others may choose these ports again. What is not reserved is passed over. */
export async function releasePorts(ports: Iterable<number>): Promise<void> {
  for (const port of ports) {
    const socket = reserved.get(port);
    reserved.delete(port);
    if (socket) await new Promise<void>((resolve) => socket.close(resolve));
  }
}

/**
 * Starts a server on the port that is given, else on one chosen here: then on another one when a stranger, who knows
 * nothing of reservations, took it before the server did.
 *
 * @param start what it started is to have ended again when it rejects
 */
export async function onFreePort<T>(
  given: number | undefined,
  start: (port: number) => Promise<T>,
): Promise<T> {
  if (given !== undefined) return start(given);
  for (let left = 3; ; left--) {
    const port = await freePort();
    try {
      return await start(port);
    } catch (error) {
      if (left === 1 || (await isFree(port))) throw error;
    }
  }
}

/** Tells whether a server can listen on the port, on loopback. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** False when another process has reserved the port. Where no UDP is to be had, every process keeps its own list. */
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
      // What a stranger sends here concerns nobody.
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

/** The ports to choose from, beside those of outgoing connections; the usual ones where these leave no room. */
export function rangeBeside(taken: Range | undefined): Range {
  if (!taken || taken.first > USUAL.last || taken.last < USUAL.first) return USUAL;
  const below = { first: 1_024, last: taken.first - 1 };
  const above = { first: taken.last + 1, last: 65_535 };
  const larger = below.last - below.first > above.last - above.first ? below : above;
  return larger.last - larger.first + 1 >= ENOUGH ? larger : USUAL;
}

/** Returns what this Linux hands to outgoing connections; undefined on another system. */
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
