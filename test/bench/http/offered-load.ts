import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { quantile } from '../lib/section.ts';
import { getRequests, onAnswers, type Target } from './answers.ts';
import type { Load } from './closed-load.ts';

export interface OfferedLoad extends Target {
  readonly perSecond: number;
  readonly seconds: number;
  readonly connections: number;
}

/** Longest time from when the last request was due to its answer, in ms. */
const PATIENCE_MS = 30_000;

/**
 * Sends GETs at an even rate, whether or not earlier ones were answered (open loop). So a pause of the server
 * counts against all requests that were due during it. The sockets are bare and connected in advance, and the
 * arrays are allocated in advance. Garbage collections of the client would pause it for tens of milliseconds, which
 * would count against the server.
 * @returns p99 in ms from when a request was due until its answer was read, and answers per second
 * @throws Error when any answer is not 200, or does not come
 */
export async function offeredLoad(options: OfferedLoad): Promise<Load> {
  const { origin, perSecond, seconds } = options;
  const { hostname, port } = new URL(origin);
  const requests = getRequests(options);
  const total = perSecond * seconds;
  const times = new Float64Array(total);
  const sockets = await Promise.all(
    Array.from({ length: options.connections }, async () => {
      const socket = connect({ host: hostname, port: Number(port), noDelay: true });
      await once(socket, 'connect');
      return socket;
    }),
  );
  const free = [...sockets];
  /** Number of the request that is under way on a connection. */
  const asked = new Map<Socket, number>();
  let sent = 0;
  let answered = 0;
  let failed: Error | undefined;
  const began = performance.now();
  const dueAt = (i: number) => began + (i / perSecond) * 1000;

  const send = () => {
    // The first request is due at once, so that none is sent one period too late.
    const due = Math.min(total, 1 + Math.floor(((performance.now() - began) / 1000) * perSecond));
    while (sent < due) {
      const socket = free.pop();
      if (!socket) return;
      asked.set(socket, sent);
      socket.write(requests[sent++ % requests.length] as Buffer);
    }
  };
  for (const socket of sockets) {
    onAnswers(socket, (error) => {
      if (error) failed ??= new Error(`${origin} ${error}`);
      times[answered++] = performance.now() - dueAt(asked.get(socket) ?? 0);
      free.push(socket);
      send();
    });
  }
  try {
    while (answered < total && !failed) {
      if (performance.now() > dueAt(total) + PATIENCE_MS)
        throw new Error(`${origin} left ${total - answered} of ${total} requests unanswered`);
      send();
      await delay(1);
    }
    if (failed) throw failed;
    return { perSecond: total / ((performance.now() - began) / 1000), p99: quantile([...times], 0.99) };
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}
