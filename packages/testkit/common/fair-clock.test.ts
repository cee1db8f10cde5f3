import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { startFairClock } from './fair-clock.ts';

it('runs on while a thread of this process works or waits, never faster than time passes', async () => {
  const clock = await startFairClock();
  const began = performance.now();
  const from = clock.now();
  await delay(100);
  const waited = clock.now();
  expect(waited).toBeGreaterThan(from);
  for (const end = performance.now() + 100; performance.now() < end; );
  await expect.poll(clock.now).toBeGreaterThan(waited);
  const passed = clock.now() - from;
  // The kernel counts in ticks of a few milliseconds.
  expect(passed).toBeLessThan(performance.now() - began + 20);
  await clock.close();
  const stopped = clock.now();
  await delay(50);
  expect(clock.now()).toBe(stopped);
});
