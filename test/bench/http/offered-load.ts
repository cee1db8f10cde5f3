import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'undici';
import { quantile } from '../lib/section.ts';

export interface OfferedLoad {
  readonly origin: string;
  /** Asked for in turn. */
  readonly paths: readonly string[];
  readonly headers: Record<string, string>;
  readonly perSecond: number;
  readonly seconds: number;
  readonly connections: number;
}

/**
 * GETs at an even rate, whether or not earlier ones were answered, so that a pause of the server counts against all
 * that were due during it (an "open loop"). autocannon's rates are bursts at the beginning of each second.
 * @returns p99 from when a request was due until its answer was read, milliseconds, and answers a second
 * @throws Error when any answer is not 200
 */
export async function offeredLoad(options: OfferedLoad): Promise<{ perSecond: number; p99: number }> {
  const { origin, paths, headers, perSecond, seconds, connections } = options;
  const pool = new Pool(origin, { connections, pipelining: 1, allowH2: false });
  const total = perSecond * seconds;
  const times: number[] = [];
  const answers: Promise<void>[] = [];
  const get = async (path: string, due: number) => {
    const { statusCode, body } = await pool.request({ method: 'GET', path, headers });
    await body.dump();
    if (statusCode !== 200) throw new Error(`${origin} answered ${statusCode}`);
    times.push(performance.now() - due);
  };
  const began = performance.now();
  try {
    while (answers.length < total) {
      // The first is due at once, so that the one of number i is sent when it is due and not one period later.
      const dueBy = Math.min(total, 1 + Math.floor(((performance.now() - began) / 1000) * perSecond));
      while (answers.length < dueBy) {
        const i = answers.length;
        const answer = get(paths[i % paths.length] as string, began + (i / perSecond) * 1000);
        answer.catch(() => undefined);
        answers.push(answer);
      }
      await delay(1);
    }
    await Promise.all(answers);
    return { perSecond: total / ((performance.now() - began) / 1000), p99: quantile(times, 0.99) };
  } finally {
    await pool.close();
  }
}
