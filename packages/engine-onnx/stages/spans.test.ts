import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Span, Spans } from './spans.ts';

/** Counts the milliseconds that lie in any of the spans. */
function counted(spans: readonly Span[]): number {
  const covered = new Set<number>();
  for (const [from, to] of spans) for (let ms = from; ms < to; ms++) covered.add(ms);
  return covered.size;
}

it('covers what any span covers, once', () => {
  const span = fc.tuple(fc.nat(200), fc.nat(30)).map(([from, length]): Span => [from, from + length]);
  fc.assert(
    fc.property(fc.array(span, { maxLength: 40 }), (all) => {
      const spans = new Spans();
      for (const one of all) spans.add(one);
      expect(spans.total).toBe(counted(all));
    }),
  );
});

it('keeps few of many, and the time of all', () => {
  const spans = new Spans();
  // Pairs of threads, one of which is a little late.
  for (let i = 0; i < 10_000; i++) {
    spans.add([i * 10 + 3, i * 10 + 6]);
    spans.add([i * 10 + 1, i * 10 + 4]);
  }
  expect(spans.total).toBe(10_000 * 5);
  expect(spans.kept.length).toBeLessThanOrEqual(512);
});
