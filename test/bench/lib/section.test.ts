import { describe, expect, test } from 'vitest';
import { formatSection } from './report.ts';
import { figure, limitRow, quantile, ratioRow, unmeasuredRow } from './section.ts';

describe('quantile', () => {
  test('interpolates between ranks, whatever the order', () => {
    expect(quantile([4, 1, 3, 2], 0)).toBe(1);
    expect(quantile([4, 1, 3, 2], 1)).toBe(4);
    expect(quantile([4, 1, 3, 2], 0.5)).toBe(2.5);
    expect(quantile([7], 0.99)).toBe(7);
  });

  test('of nothing is an error, not a number', () => {
    expect(() => quantile([], 0.5)).toThrow(RangeError);
  });
});

test('figures keep about three digits', () => {
  expect([1234.5, 12.345, 1.2345, 0.4, 100].map(figure)).toEqual(['1,235', '12.3', '1.23', '0.4', '100']);
});

test('a goal is met at its very value and not below it', () => {
  const row = (ours: number) =>
    ratioRow({ name: 'x', ours, peer: 100, unit: '/s', peerName: 'y', atLeast: 0.4 }).met;
  expect([row(40), row(39.9)]).toEqual(['met', 'not met']);
  const limit = (ours: number) => limitRow({ name: 'x', ours, limit: 100, unit: 'ms' }).met;
  expect([limit(100), limit(100.1)]).toEqual(['met', 'not met']);
});

test('a section is a Markdown table whose columns line up', () => {
  const text = formatSection({
    title: 'Jobs',
    rows: [
      ratioRow({ name: 'submits', ours: 500, peer: 1000, unit: '/s', peerName: 'pgbench', atLeast: 0.4 }),
      unmeasuredRow('other', '≥ 1', 'no tool'),
    ],
    notes: ['a note'],
  });
  const lines = text.split('\n').filter((line) => line.startsWith('|'));
  expect(lines).toHaveLength(4);
  expect(new Set(lines.map((line) => [...line].length)).size).toBe(1);
  expect(text).toContain('0.50');
  expect(text).toContain('a note');
});
