import { expect, it } from 'vitest';
import { madeOnce } from './made-once.ts';

it('makes a thing once for all who ask, and again after it could not', async () => {
  let tries = 0;
  const thing = madeOnce(async () => {
    if (++tries === 1) throw new Error('too many open files');
    return { tries };
  });
  const [first, beside] = await Promise.allSettled([thing(), thing()]);
  expect([first?.status, beside?.status, tries]).toEqual(['rejected', 'rejected', 1]);
  const made = await thing();
  expect(made).toEqual({ tries: 2 });
  expect(await thing()).toBe(made);
});
