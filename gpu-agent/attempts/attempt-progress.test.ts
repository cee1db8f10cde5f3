import { afterEach, expect, it, vi } from 'vitest';
import { createAttemptProgress } from './attempt-progress.ts';
import { createAttemptTable } from './attempt-table.ts';

const ref = { jobUid: 'a', attempt: 1 };

afterEach(() => void vi.restoreAllMocks());

/** Returns an attempt in a table, as others see it, with a clock that the test moves. */
function attempt(measured: boolean) {
  let now = 0;
  vi.spyOn(Date, 'now').mockImplementation(() => now);
  const table = createAttemptTable();
  table.start(ref, { slots: 1, capacity: 1, draining: false, now });
  const progress = createAttemptProgress({
    measured,
    onProgress: (fraction, stage, secondsLeft) =>
      void table.progress(ref, { fraction, stage, secondsLeft, now }),
  });
  return {
    progress,
    pass: (seconds: number) => {
      now += seconds * 1_000;
    },
    seen: () => {
      const { progress: done, stage, etaSeconds } = table.get(ref) ?? { progress: Number.NaN };
      return { done, stage, left: etaSeconds };
    },
  };
}

it('measuring a video has a share of its own, between the render and the store', () => {
  const { progress, seen } = attempt(true);
  progress.fetching();
  expect(seen()).toMatchObject({ done: 0, stage: 'fetch' });
  progress.rendering(0, 'decode');
  expect(seen().done).toBeCloseTo(0.05);
  progress.rendering(1, 'write');
  const rendered = seen().done;
  expect(rendered).toBeLessThan(0.9);
  progress.measuring(0);
  expect(seen()).toMatchObject({ done: rendered, stage: 'measure' });
  progress.measuring(0.5);
  expect(seen().done).toBeCloseTo((rendered + 0.95) / 2);
  progress.measuring(1);
  expect(seen().done).toBeCloseTo(0.95);
  progress.storing();
  expect(seen()).toMatchObject({ stage: 'store' });
  expect(seen().done).toBeCloseTo(0.95);
});

it('a picture is not measured: the render has that share', () => {
  const { progress, seen } = attempt(false);
  progress.rendering(1, 'write');
  expect(seen().done).toBeCloseTo(0.95);
});

it('never falls and never ends before the store, whatever was claimed of the length', () => {
  const { progress, seen } = attempt(true);
  progress.rendering(1, 'write');
  let before = seen().done;
  // The engine stated two seconds for a video of six seconds, and its times are not all in order.
  for (const seconds of [0, 0.5, 0.4, 1.9, 2, 1.5, 4, 6, Number.NaN]) {
    progress.measuring(seconds / 2);
    const { done } = seen();
    expect(done).toBeGreaterThanOrEqual(before);
    expect(done).toBeLessThan(0.951);
    before = done;
  }
});

it('tells the time that measuring takes by its own pace', () => {
  const { progress, pass, seen } = attempt(true);
  progress.fetching();
  for (let i = 0; i <= 1_000; i++) {
    progress.rendering(i / 1_000, 'swap');
    pass(1);
  }
  // The render took 1000 s, and measuring takes 200 s.
  for (let i = 0; i < 200; i++) {
    progress.measuring(i / 200);
    if (i >= 10) expect(seen().left, `after ${i} s`).toBeCloseTo(200 - i, 3);
    pass(1);
  }
});

it("adds what measuring takes to the engine's estimate, and makes no sense of nonsense", () => {
  const { progress, pass, seen } = attempt(true);
  progress.rendering(0, 'swap', 820);
  // The share of rendering is about ten times that of measuring: 0.82 to 0.08.
  const whole = seen().left as number;
  expect(whole).toBeGreaterThan(880);
  expect(whole).toBeLessThan(910);
  pass(410);
  progress.rendering(0.5, 'swap', 410);
  expect(seen().left).toBeCloseTo(whole - 410, 5);

  const nonsense: unknown[] = [];
  const other = createAttemptProgress({ measured: true, onProgress: (...said) => nonsense.push(said[2]) });
  for (const seconds of [-5, Number.NaN]) other.rendering(0.5, 'swap', seconds);
  expect(nonsense).toEqual([-5, Number.NaN]);

  const picture = attempt(false);
  picture.progress.rendering(0.5, 'swap', 7);
  expect(picture.seen().left).toBe(7);
});
