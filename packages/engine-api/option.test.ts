import { describe, expect, it } from 'vitest';
import {
  announcementsFault,
  commonOptions,
  describeValues,
  type EngineOption,
  optionFaults,
  optionValue,
  optionValues,
} from './option.ts';

const option = (more: Partial<EngineOption>): EngineOption => ({
  name: 'steps',
  type: 'integer',
  description: 'Steps of the sampler.',
  ...more,
});
const steps = option({ minimum: 1, maximum: 50, default: '20' });
const strength = option({ name: 'strength', type: 'number', minimum: 0, maximum: 1 });
const lora = option({ name: 'lora', type: 'choice', choices: ['none', 'film'] });
const sharp = option({ name: 'sharp', type: 'boolean' });
const note = option({ name: 'note', type: 'text', maxLength: 3 });

describe('the value of an option', () => {
  it.each<[EngineOption, string, unknown]>([
    [steps, '1', 1],
    [steps, '50', 50],
    [steps, '-0', -0],
    [strength, '.5', 0.5],
    [strength, '1e-3', 0.001],
    [option({}), '-7', -7],
    [lora, 'film', 'film'],
    [sharp, 'true', true],
    [sharp, 'false', false],
    [note, 'abc', 'abc'],
    [note, '', ''],
  ])('%o takes %j', (one, text, value) => {
    const open = one === steps && text === '-0' ? option({}) : one;
    expect(optionValue(open, text)).toBe(value);
  });

  it.each<[EngineOption, string[]]>([
    [steps, ['0', '51', '1.5', '1e1', ' 1', '1 ', '', 'NaN', 'true', '0x10', '+1', '9'.repeat(17)]],
    [option({}), ['9007199254740993']],
    [strength, ['-0.1', '1.0001', 'Infinity', 'NaN', '1e999', '0,5', '']],
    [lora, ['Film', '', 'constructor']],
    [sharp, ['1', 'yes', 'True', '']],
    [note, ['abcd', '\ud83d', 'a\0']],
  ])('%o refuses %j', (one, texts) => {
    for (const text of texts) expect(optionValue(one, text), text).toBeUndefined();
  });

  it('is described in words', () => {
    expect(
      [steps, strength, option({}), option({ minimum: 0 }), option({ maximum: 9 }), lora, sharp, note].map(
        describeValues,
      ),
    ).toEqual([
      'a whole number from 1 to 50',
      'a number from 0 to 1',
      'a whole number',
      'a whole number from 0',
      'a whole number up to 9',
      'one of none, film',
      'true or false',
      'text of at most 3 characters',
    ]);
  });
});

it('names what is no option and what is out of bounds, and reads the rest', () => {
  const given = { steps: '99', lora: 'film', constructor: '1' };
  expect(optionFaults([steps, lora], given)).toEqual([
    { name: 'steps', fault: 'must be a whole number from 1 to 50' },
    { name: 'constructor', fault: 'is not among the options' },
  ]);
  expect(optionValues([steps, lora, sharp], { steps: '3', lora: 'film' })).toEqual({
    steps: 3,
    lora: 'film',
  });
});

it.each<[string, Partial<EngineOption>, RegExp]>([
  ['a name of upper case', { name: 'Steps' }, /name of an option is "Steps"/],
  ['an unknown type', { type: 'colour' as never }, /type of the option steps/],
  ['no description', { description: ' ' }, /description/],
  ['bounds of a text', { type: 'text', minimum: 1 }, /bounds/],
  ['bounds that are no numbers', { minimum: Number.NaN }, /bounds/],
  ['a minimum above the maximum', { minimum: 2, maximum: 1 }, /above its maximum/],
  ['a choice without choices', { type: 'choice' }, /choices/],
  ['choices of a number', { choices: ['a'] }, /choices/],
  ['the same choice twice', { type: 'choice', choices: ['a', 'a'] }, /none twice/],
  ['a length of a number', { maxLength: 3 }, /length/],
  [
    'a default out of bounds',
    { minimum: 1, default: '0' },
    /default of the option steps must be a whole number from 1/,
  ],
])('an announcement has a fault: %s', (_what, change, fault) => {
  expect(announcementsFault([option(change)])).toMatch(fault);
});

it('an announcement has no option twice, and no more than 32', () => {
  expect(announcementsFault([steps, strength, lora, sharp, note])).toBeUndefined();
  expect(announcementsFault([steps, steps])).toBe('the option steps is there twice');
  expect(announcementsFault(Array.from({ length: 33 }, (_, i) => option({ name: `o${i}` })))).toMatch(
    /at most 32/,
  );
});

describe('options of several agents', () => {
  it('are those that all have, within the bounds of all', () => {
    const other = [
      option({ minimum: 4, default: '8' }),
      { ...lora, choices: ['film', 'comic'] },
      { ...note, maxLength: 2 },
      strength,
    ];
    expect(commonOptions([[steps, lora, sharp, note, strength], other])).toEqual([
      option({ minimum: 4, maximum: 50 }),
      { ...lora, choices: ['film'] },
      { ...note, maxLength: 2 },
      strength,
    ]);
  });

  it('leave out what has nothing in common', () => {
    const first = [steps, lora, sharp];
    expect(commonOptions([first, [option({ minimum: 51 }), { ...lora, choices: ['x'] }]])).toEqual([]);
    expect(commonOptions([first, [{ ...sharp, type: 'integer' }]])).toEqual([]);
    expect(commonOptions([first, first, []])).toEqual([]);
    expect(commonOptions([])).toEqual([]);
    expect(commonOptions([first])).toEqual(first);
  });
});
