import { describe, expect, it } from 'vitest';
import { Meter } from './meter.ts';

type Sent = [at: number, durationMs: number];

it.each<[string, Sent[], number]>([
  ['nothing was sent', [], 0],
  ['one message: what it lasts', [[5_000, 20]], 20],
  [
    'two: the time between them, and the last',
    [
      [5_000, 20],
      [6_000, 20],
    ],
    1_020,
  ],
  [
    'a pause counts when the stream goes on after it',
    [
      [0, 20],
      [20, 20],
      [9_980, 20],
    ],
    10_000,
  ],
  [
    'a burst is no longer than it took, and its longest message',
    [
      [0, 20],
      [1, 500],
      [2, 20],
    ],
    501,
  ],
  [
    'what is short after what is long takes nothing back',
    [
      [0, 1_000],
      [10, 2],
    ],
    1_000,
  ],
  [
    'fractions are rounded once, at the end',
    [
      [0.25, 20],
      [100.75, 20],
    ],
    121,
  ],
  [
    'never more than was granted',
    [
      [0, 20],
      [59_999, 20],
      [60_100, 20],
    ],
    60_000,
  ],
  [
    'a clock does not begin at 0',
    [
      [1e12, 20],
      [1e12 + 500, 20],
    ],
    520,
  ],
])('%s', (_name, sent, streamedMs) => {
  const meter = new Meter(60_000);
  for (const [at, duration] of sent) meter.sent(at, duration);
  expect(meter.streamedMs).toBe(streamedMs);
});

describe('the limit', () => {
  it('is counted from the first message', () => {
    const meter = new Meter(60_000);
    expect(meter.limitAt).toBeUndefined();
    expect(meter.sent(700, 20)).toBe(true);
    expect(meter.sent(900, 20)).toBe(false);
    expect(meter.limitAt).toBe(60_700);
  });
});

it('only grows, whatever is sent', () => {
  const meter = new Meter(10_000);
  let before = 0;
  for (let i = 0; i < 500; i++) {
    meter.sent(i * 37, (i * 7919) % 90);
    expect(meter.streamedMs).toBeGreaterThanOrEqual(before);
    before = meter.streamedMs;
  }
  expect(before).toBe(10_000);
});
