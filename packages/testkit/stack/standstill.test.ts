import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';

let ask: typeof import('./standstill.ts').askFairly;
let asked = 0;
let stoodMs = 0;

beforeAll(async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'performance'] });
  ({ askFairly: ask } = await import('./standstill.ts'));
});
afterAll(() => void vi.useRealTimers());
beforeEach(() => {
  asked = 0;
  const now = performance.now() + stoodMs;
  vi.spyOn(performance, 'now').mockImplementation(() => now + stoodMs);
  stoodMs = 0;
  vi.advanceTimersByTime(1_000);
});

/** Returns a service that first fails while the machine stands still for this long. */
const service = (stands: number) => async () => {
  stoodMs += stands;
  return asked++ === 0 ? 503 : 200;
};
const failed = (status: number) => status === 503;

test('a failure is one on a machine that goes on', async () => {
  expect(await ask(service(1_900), failed)).toBe(503);
  const broken = async () => {
    asked++;
    throw new Error('broken');
  };
  await expect(ask(broken)).rejects.toThrow('broken');
  expect(asked).toBe(2);
});

test('what failed on a machine that stood still is asked once more, whether it answered or not', async () => {
  expect(await ask(service(2_100), failed)).toBe(200);
  expect(asked).toBe(2);
  const broken = async () => {
    stoodMs += 2_100;
    asked++;
    throw new Error('broken');
  };
  await expect(ask(broken)).rejects.toThrow('broken');
  expect(asked).toBe(4);
});

test('what did not fail is not asked again', async () => {
  const refused = async () => {
    stoodMs += 2_100;
    asked++;
    return 400;
  };
  expect([await ask(refused, failed), asked]).toEqual([400, 1]);
});
