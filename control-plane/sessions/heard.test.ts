import { expect, test } from 'vitest';
import { createHeard } from './heard.ts';

function start() {
  let at = 100;
  const heard = createHeard(3_000, () => at);
  return {
    heard,
    /** Records answers at these moments. */
    answers(...moments: number[]) {
      for (const moment of moments) {
        at = moment;
        heard.answered();
      }
      return heard.since();
    },
    sinceAt(moment: number) {
      at = moment;
      return heard.since();
    },
  };
}

test('it is heard from its first answer on, as long as the next comes in time', () => {
  const { answers, heard } = start();
  expect(heard.since()).toBeUndefined();
  expect(answers(1_000, 2_000, 5_000, 8_000)).toBe(1_000);
});

test('a gap begins it anew, whether what was asked was answered late or not asked', () => {
  const { answers } = start();
  expect(answers(1_000, 4_001)).toBe(4_001);
  expect(answers(5_000)).toBe(4_001);
});

test('a question without an answer begins it anew', () => {
  const { heard, answers } = start();
  answers(1_000, 2_000);
  heard.beginAnew();
  expect(heard.since()).toBeUndefined();
  expect(answers(3_000)).toBe(3_000);
});

test('while it is silent it is not heard', () => {
  const { answers, sinceAt } = start();
  answers(1_000, 2_000);
  expect(sinceAt(5_000)).toBe(1_000);
  expect(sinceAt(5_001)).toBeUndefined();
});
