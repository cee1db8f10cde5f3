import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** Milliseconds as they pass for work: see `startFairClock`. */
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
 * A clock by which a promise of so many milliseconds can be held to on a machine that others use too: the processor time
 * that a thread of this process was given which always wants more. Work beside it is given the same share, so that what
 * would take a second on an idle machine takes a second by it on a busy one; and it stands still with the machine.
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

/** How long an act takes by such a clock, which runs no longer than the act. @param act given the clock's time */
export async function fairly<T>(act: (now: () => number) => Promise<T>): Promise<T> {
  const clock = await startFairClock();
  try {
    return await act(clock.now);
  } finally {
    await clock.close();
  }
}
