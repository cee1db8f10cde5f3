import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { createThreadGate, endThread, threadStarted, throughGate } from './thread-gate.ts';

const ENTRY = new URL('../../testkit/vision/models/restless-thread.ts', import.meta.url);

function startedGate() {
  const gate = createThreadGate();
  threadStarted(gate);
  return gate;
}

/** Whether the promise settles within a moment. */
async function settles(promise: Promise<unknown>): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  );
  return Promise.race([settled, delay(50).then(() => false)]);
}

it('threads end while they load and run networks, and their process lives on', async () => {
  for (let count = 0; count < 12; count++) {
    const gate = createThreadGate();
    const worker = new Worker(ENTRY, { workerData: { gate } });
    const ended = once(worker, 'exit');
    // Some threads are then starting or loading, the others are at various points of a run.
    if (count < 4) await delay(count * 60);
    else {
      await once(worker, 'message');
      await delay(Math.random() * 10);
    }
    await endThread(worker, gate);
    await ended;
  }
});

it('hands on what a network answers, and its failures', async () => {
  const gate = startedGate();
  expect(await throughGate(async () => 5, gate)).toBe(5);
  expect(await throughGate(async () => 6, undefined)).toBe(6);
  await expect(throughGate(() => Promise.reject(new Error('wrong shape')), gate)).rejects.toThrow(
    'wrong shape',
  );
  expect([...gate]).toEqual([0, 0]);
});

it('waits for what runs, and lets nothing begin and nobody go on', async () => {
  const gate = startedGate();
  const worker = new Worker('setInterval(() => {}, 1000)', { eval: true });
  await once(worker, 'online');
  const [first, second] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
  const runs = [throughGate(() => first.promise, gate), throughGate(() => second.promise, gate)];
  const ending = endThread(worker, gate);
  let begun = false;
  const late = throughGate(async () => {
    begun = true;
  }, gate);
  first.resolve('one');
  expect(await settles(ending)).toBe(false);
  second.reject(new Error('two'));
  await ending;
  expect(begun).toBe(false);
  for (const run of [...runs, late]) expect(await settles(run)).toBe(false);
  expect(worker.threadId).toBe(-1);
});

it('ends a thread that is busy with something else, and does not wait for one that has ended', async () => {
  const busy = new Worker('for (;;);', { eval: true });
  await once(busy, 'online');
  await endThread(busy, startedGate());
  expect(busy.threadId).toBe(-1);

  const broken = new Worker('throw new Error("a module is missing")', { eval: true });
  broken.on('error', () => {});
  // The thread never reported its start.
  await endThread(broken, createThreadGate());
  expect(broken.threadId).toBe(-1);
});
