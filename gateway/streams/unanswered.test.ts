import { expect, it } from 'vitest';
import { Unanswered } from './unanswered.ts';

it('an answer covers all messages before it, once', () => {
  const unanswered = new Unanswered();
  for (let i = 1n; i <= 5n; i++) unanswered.sent(i, 10, Number(i) * 100);
  expect([unanswered.units, unanswered.messages]).toEqual([50, 5]);
  expect(unanswered.answered(3n)).toBe(300);
  expect([unanswered.units, unanswered.messages]).toEqual([20, 2]);
  expect(unanswered.answered(2n)).toBeUndefined();
  expect(unanswered.answered(0n)).toBeUndefined();
  expect(unanswered.answered(99n), 'of messages that were never sent').toBe(500);
  expect([unanswered.units, unanswered.messages]).toEqual([0, 0]);
});
