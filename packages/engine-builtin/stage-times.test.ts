import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { StageTimes } from './stage-times.ts';

it('adds up what a stage takes in several goes, in the order in which stages first ended', async () => {
  const times = new StageTimes();
  expect(times.stages).toEqual([]);
  expect(await times.timed('track', () => delay(30, 'face'))).toBe('face');
  const [{ milliseconds: once } = { milliseconds: Number.NaN }] = times.stages;
  expect(once).toBeGreaterThan(25);
  await times.timed('draw', () => 7);
  await times.timed('track', () => delay(30));
  expect(times.stages.map(({ name }) => name)).toEqual(['track', 'draw']);
  expect(times.stages[0]?.milliseconds).toBeGreaterThan(once + 25);
});

it('counts what a stage took that failed, and lets the error through', async () => {
  const times = new StageTimes();
  const failing = times.timed('draw', async () => {
    await delay(30);
    throw new Error('broken on purpose');
  });
  await expect(failing).rejects.toThrow('broken on purpose');
  expect(times.stages).toEqual([{ name: 'draw', milliseconds: expect.any(Number) }]);
  expect(times.stages[0]?.milliseconds).toBeGreaterThan(25);
});
