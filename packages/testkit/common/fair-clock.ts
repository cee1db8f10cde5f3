import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** Clock in ms of processor time; see `startFairClock`. */
export interface FairClock {
  now(): number;
  close(): Promise<unknown>;
}

const SPIN = `
  const { workerData, parentPort } = require('node:worker_threads');
  const used = new BigInt64Array(workerData);
  parentPort.postMessage('began');
  for (;;) {
    const { user, system } = process.threadCpuUsage();
    Atomics.store(used, 0, BigInt(Math.round(user + system)));
  }`;

/**
 * Starts a clock that measures processor time instead of wall time, so that a time limit can be tested on a shared
 * machine. A thread of this process always runs; the clock shows the processor time that it was given. Work beside
 * it gets the same share, so the clock runs slower on a busy machine and stops when the machine stands still.
 */
export async function startFairClock(): Promise<FairClock> {
  const shared = new SharedArrayBuffer(8);
  const used = new BigInt64Array(shared);
  const thread = new Worker(SPIN, { eval: true, workerData: shared });
  await once(thread, 'message');
  return {
    now: () => Number(Atomics.load(used, 0)) / 1_000,
    close: () => thread.terminate(),
  };
}

/** Returns the duration of an act by a fair clock that exists only during the act. @param act receives the clock */
export async function fairly<T>(act: (now: () => number) => Promise<T>): Promise<T> {
  const clock = await startFairClock();
  try {
    return await act(clock.now);
  } finally {
    await clock.close();
  }
}
