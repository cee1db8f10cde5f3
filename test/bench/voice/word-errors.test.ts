import { expect, it } from 'vitest';
import { wordErrors, wordsOf } from './word-errors.ts';

it('words are compared without case, punctuation and the spelling of numbers', () => {
  expect(wordsOf("It's the Baker’s 2 dogs: one, two.")).toEqual('its the bakers two dogs one two'.split(' '));
  expect(wordsOf(' … ')).toEqual([]);
});

it.each([
  ['a b c', 'a b c', 0],
  ['a b c', 'a x c', 1],
  ['a b c', 'b c', 1],
  ['a b c', 'a b c d e', 2],
  ['a b c', '', 3],
  ['', 'a b', 2],
  ['a b c d', 'b c d a', 2],
])('from "%s" to "%s" there are %i errors', (said, heard, errors) => {
  expect(wordErrors(wordsOf(said), wordsOf(heard))).toBe(errors);
});
