import { createLogger } from '@semblance/common/logging';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createClientLog } from './client-log.ts';

let lines: Record<string, unknown>[];
const logger = () =>
  createLogger({
    service: 'test',
    level: 'info',
    destination: { write: (line: string) => void lines.push(JSON.parse(line)) },
  });
beforeEach(() => {
  lines = [];
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it('writes the first lines of a kind whole, and one with the number of the rest', () => {
  const log = createClientLog(logger(), { lines: 3, everyMs: 1_000 });
  for (let i = 0; i < 1_000; i++) log.warn('cut', { i }, 'a client cut the line');
  log.info('other', { i: 'other' });
  expect(lines.map(({ i }) => i)).toEqual([0, 1, 2, 'other']);
  vi.advanceTimersByTime(999);
  expect(lines).toHaveLength(4);
  vi.advanceTimersByTime(1);
  expect(lines.slice(4)).toEqual([
    expect.objectContaining({ level: 'warn', kind: 'cut', unsaid: 997, withinMs: 1_000 }),
  ]);
  log.warn('cut', { i: 'later' }, 'a client cut the line');
  expect(lines.at(-1)).toMatchObject({ i: 'later' });
});

it('says nothing more of a kind of which nothing was left out, and keeps nothing of it', () => {
  const log = createClientLog(logger(), { lines: 3, everyMs: 1_000 });
  for (let i = 0; i < 3; i++) log.error('few', { i });
  vi.advanceTimersByTime(5_000);
  expect(lines).toHaveLength(3);
  expect(vi.getTimerCount()).toBe(0);
});

it('tells the same kind at two levels apart', () => {
  const log = createClientLog(logger(), { lines: 1, everyMs: 1_000 });
  log.info('a', {});
  log.error('a', {});
  expect(lines.map(({ level }) => level)).toEqual(['info', 'error']);
});

it('holds when kinds are made of what clients send', () => {
  const log = createClientLog(logger(), { lines: 1, everyMs: 1_000 });
  for (let i = 0; i < 5_000; i++) log.info(`/${i}`, { i });
  expect(lines).toHaveLength(1_001);
  vi.advanceTimersByTime(1_000);
  expect(lines.slice(1_001)).toEqual([expect.objectContaining({ kind: 'other', unsaid: 3_999 })]);
});
