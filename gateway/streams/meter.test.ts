import { describe, expect, it } from 'vitest';
import { Meter } from './meter.ts';

type Sent = [at: number, durationMs: number];

const KINDS = ['voice', 'picture'] as const;

function streamed(kind: (typeof KINDS)[number], sent: readonly Sent[]): number {
  const meter = new Meter(60_000, kind);
  for (const [at, duration] of sent) meter.sent(at, duration);
  return meter.streamedMs;
}

it.each<[string, Sent[], number]>([
  ['nothing was sent', [], 0],
  ['one message: what it lasts', [[5_000, 20]], 20],
  ['a single sample: not nothing', [[5_000, 1 / 48]], 1],
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
  [
    'real time, to the millisecond',
    Array.from({ length: 500 }, (_, i): Sent => [7_000.3 + i * 20 + (i % 3), 20]),
    10_001,
  ],
])('%s', (_name, sent, streamedMs) => {
  for (const kind of KINDS) expect(streamed(kind, sent), kind).toBe(streamedMs);
});

describe('what is sent at once', () => {
  const burst: Sent[] = [
    [0, 20],
    [1, 500],
    [2, 20],
  ];

  it('of pictures is no longer than it took, and the longest of them', () => {
    expect(streamed('picture', burst)).toBe(501);
  });

  it('takes nothing back, what is short after what is long', () => {
    const sent: Sent[] = [
      [0, 1_000],
      [10, 2],
    ];
    expect(streamed('picture', sent)).toBe(1_000);
    expect(streamed('voice', sent)).toBe(1_002);
  });

  it('of sound lasts what it lasts', () => {
    expect(streamed('voice', burst)).toBe(540);
    expect(streamed('voice', [...burst, [400, 20]])).toBe(560);
    expect(streamed('voice', [...burst, [900, 20]]), 'longer than all of its sound').toBe(920);
  });

  it('of sound after a pause is made up for by the pause', () => {
    const later = Array.from({ length: 250 }, (): Sent => [8_000, 20]);
    expect(streamed('voice', [[0, 20], ...later])).toBe(8_020);
  });

  it('never comes to more than was granted', () => {
    expect(streamed('voice', Array(4_000).fill([0, 20]))).toBe(60_000);
  });
});

describe('the limit', () => {
  it.each(KINDS)('is counted from the first message, by the clock alone: %s', (kind) => {
    const meter = new Meter(60_000, kind);
    expect(meter.limitAt).toBeUndefined();
    expect(meter.sent(700, 20)).toBe(true);
    expect(meter.sent(900, 50_000)).toBe(false);
    expect(meter.limitAt).toBe(60_700);
  });
});

it.each(KINDS)('only grows, whatever is sent: %s', (kind) => {
  const meter = new Meter(10_000, kind);
  let before = 0;
  for (let i = 0; i < 500; i++) {
    meter.sent(i * 37, (i * 7919) % 90);
    expect(meter.streamedMs).toBeGreaterThanOrEqual(before);
    before = meter.streamedMs;
  }
  expect(before).toBe(10_000);
});
