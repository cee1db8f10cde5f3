import { quantile } from '../lib/section.ts';
import { type Connection, getRequests, openConnection, type Target } from './answers.ts';

export interface Load {
  /** Answers per second. */
  readonly perSecond: number;
  /** 99th percentile of the latency, in ms. */
  readonly p99: number;
}

export interface ClosedLoad extends Target {
  readonly connections: number;
  readonly seconds: number;
}

/**
 * Sends GETs as fast as they are answered, one at a time on each connection (closed loop). It uses bare sockets,
 * because the client shares the cores with what it measures.
 * @returns p99 from a request until its answer was read
 * @throws Error when any answer is not 200
 */
export async function closedLoad({ connections, seconds, ...target }: ClosedLoad): Promise<Load> {
  const requests = getRequests(target);
  const opened = await Promise.all(Array.from({ length: connections }, () => openConnection(target.origin)));
  const times: number[] = [];
  const began = performance.now();
  const end = began + seconds * 1000;
  let sent = 0;
  const worker = async (connection: Connection) => {
    for (let sentAt = began; sentAt < end; ) {
      await connection.ask(requests[sent++ % requests.length] as Buffer);
      const now = performance.now();
      times.push(now - sentAt);
      sentAt = now;
    }
  };
  try {
    await Promise.all(opened.map(worker));
    return {
      perSecond: (times.length / (performance.now() - began)) * 1000,
      p99: quantile(times, 0.99),
    };
  } finally {
    for (const connection of opened) connection.close();
  }
}
