import { expect, it } from 'vitest';
import { createBell } from './bell.ts';

const LONG_MS = 60_000;

it('a ring ends the wait, or the next one when nobody waits', async () => {
  const bell = createBell();
  const waiting = bell.wait(LONG_MS);
  bell.ring();
  await waiting;
  bell.ring();
  await bell.wait(LONG_MS);
});

it('rings are not counted, and without one the wait ends by time', async () => {
  const bell = createBell();
  bell.ring();
  bell.ring();
  await bell.wait(LONG_MS);
  const before = performance.now();
  await bell.wait(20);
  expect(performance.now() - before).toBeGreaterThanOrEqual(18);
});
