import { expect, it } from 'vitest';
import { quickest } from './quickest.ts';

const tries = (...times: number[]) => {
  let made = 0;
  return { once: async () => times[made++] as number, made: () => made };
};

it.each([
  [[10], 10, 1],
  [[1_000, 999], 999, 2],
  [[5_000, 4_000, 2_000], 2_000, 3],
  [[3_000, 9_000, 4_000], 3_000, 3],
])('of %j the best is %i, after %i tries', async (times, best, made) => {
  const each = tries(...times);
  expect(await quickest(1_000, each.once)).toBe(best);
  expect(each.made()).toBe(made);
});

it('fails with the try that fails', async () => {
  await expect(quickest(1_000, () => Promise.reject(new Error('not ended')))).rejects.toThrow('not ended');
});
