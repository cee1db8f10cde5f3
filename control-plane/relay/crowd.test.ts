import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { watchCrowd } from './crowd.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function calls() {
  const ends: (() => void)[] = [];
  const work = (value: string) => new Promise<string>((resolve) => ends.push(() => resolve(value)));
  const watched = watchCrowd(work, { most: 2, lingerMs: 100 });
  return { ...watched, end: () => ends.shift()?.() };
}

test('as many calls as may be are no crowd; one more is', () => {
  const { run, crowded } = calls();
  expect(crowded()).toBe(false);
  void run('a');
  void run('b');
  expect(crowded()).toBe(false);
  void run('c');
  expect(crowded()).toBe(true);
});

test('a crowd that lasts goes on counting as one', () => {
  const { run, crowded } = calls();
  for (const call of ['a', 'b', 'c']) void run(call);
  vi.advanceTimersByTime(10_000);
  expect(crowded()).toBe(true);
});

test('one that has gone counts for a moment more, though nobody asked while it was there', async () => {
  const { run, crowded, end } = calls();
  const answers = ['a', 'b', 'c'].map((call) => run(call));
  vi.advanceTimersByTime(5_000);
  for (const _ of answers) end();
  await Promise.all(answers);
  vi.advanceTimersByTime(100);
  expect(crowded()).toBe(true);
  vi.advanceTimersByTime(1);
  expect(crowded()).toBe(false);
});

test('a call that fails has left too, and answers and errors are the callee’s', async () => {
  const watched = watchCrowd(
    (fails: boolean) => (fails ? Promise.reject(new Error('no')) : Promise.resolve('yes')),
    { most: 0, lingerMs: 100 },
  );
  await expect(watched.run(true)).rejects.toThrow('no');
  await expect(watched.run(false)).resolves.toBe('yes');
  expect(watched.crowded()).toBe(true);
  vi.advanceTimersByTime(101);
  expect(watched.crowded()).toBe(false);
});
