import { setTimeout as delay } from 'node:timers/promises';
import { PATIENT } from '@semblance/testkit/control-plane/storage';
import { expect, test } from 'vitest';
import { createBatcher, MAX_WAITING } from './batcher.ts';

test('requests that arrive while a batch is under way form the next one', async () => {
  const sizes: number[] = [];
  let go = () => {};
  const held = new Promise<void>((resolve) => {
    go = resolve;
  });
  const batcher = createBatcher<number, number>({
    deadlineMs: PATIENT.deadlineMs,
    async run(requests) {
      sizes.push(requests.length);
      await held;
      return requests.map((n) => n * 2);
    },
  });
  const first = batcher.submit(1);
  await delay(5);
  const rest = Array.from({ length: 50 }, (_, i) => batcher.submit(i));
  go();
  expect(await first).toBe(2);
  expect(await Promise.all(rest)).toEqual(Array.from({ length: 50 }, (_, i) => i * 2));
  expect(sizes).toEqual([1, 50]);
});

test('a request is refused alone when its answer is an error', async () => {
  const batcher = createBatcher<number, number>({
    deadlineMs: PATIENT.deadlineMs,
    run: async (requests) => requests.map((n) => (n === 2 ? new Error('not two') : n)),
  });
  const answers = await Promise.allSettled([1, 2, 3].map((n) => batcher.submit(n)));
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
});

test('a batch that had no effect is tried request by request, so one bad request fails alone', async () => {
  const batcher = createBatcher<number, number>({
    deadlineMs: PATIENT.deadlineMs,
    divisible: () => true,
    async run(requests) {
      if (requests.includes(2)) throw new Error('bad');
      return requests;
    },
  });
  const answers = await Promise.allSettled([1, 2, 3].map((n) => batcher.submit(n)));
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
});

test('a batch that hangs is given up at the deadline and does not hold up the next', async () => {
  let calls = 0;
  const batcher = createBatcher<number, number>({
    deadlineMs: 50,
    run: async (requests) => (calls++ === 0 ? new Promise(() => {}) : requests),
  });
  await expect(batcher.submit(1)).rejects.toMatchObject({ code: 'internal_error' });
  expect(await batcher.submit(2)).toBe(2);
});

test('more than may wait are refused at once', async () => {
  const batcher = createBatcher<number, number>({
    maxSize: 1,
    deadlineMs: 200,
    run: () => new Promise(() => {}),
  });
  const answers = await Promise.allSettled(
    Array.from({ length: MAX_WAITING + 2 }, (_, n) => batcher.submit(n)),
  );
  const reasons = answers.map((answer) =>
    answer.status === 'rejected' ? String(answer.reason.message) : '',
  );
  expect(reasons.filter((reason) => reason.includes('wait for the database already'))).toHaveLength(2);
});

test('what was given up while it waited is never begun', async () => {
  const begun: number[] = [];
  const batcher = createBatcher<number, number>({
    deadlineMs: 60,
    maxSize: 1,
    async run(requests) {
      begun.push(...requests);
      await delay(requests.includes(1) ? 500 : 0);
      return requests;
    },
  });
  const first = batcher.submit(1).catch(() => 'late');
  const second = batcher.submit(2).catch(() => 'late');
  expect(await Promise.all([first, second])).toEqual(['late', 'late']);
  expect(await batcher.submit(3)).toBe(3);
  expect(begun).toEqual([1, 3]);
});

test('requests of a size fill a batch by it, and one that is larger than a batch goes alone', async () => {
  const batches: number[][] = [];
  const batcher = createBatcher<number, number>({
    deadlineMs: PATIENT.deadlineMs,
    maxSize: 10,
    sizeOf: (n) => n,
    async run(requests) {
      batches.push([...requests]);
      await delay(1);
      return requests;
    },
  });
  await Promise.all([4, 6, 1, 20, 5, 5, 5].map((n) => batcher.submit(n)));
  expect(batches).toEqual([[4, 6], [1], [20], [5, 5], [5]]);
});
