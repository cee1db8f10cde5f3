import { describe, expect, it } from 'vitest';
import { hasVoice, joined, languageFor, type Speech, speechFault } from './speech.ts';

const SPEECH: Speech = {
  voices: [
    { id: 'amy', language: 'en-gb', gender: 'female', variants: 'amy' },
    { id: 'slt', language: 'en-us', gender: 'female' },
    { id: 'espeak-ng/de', language: 'de', gender: 'male', variants: 'espeak-ng' },
  ],
  variants: [
    { name: 'amy', endings: ['/1', '/2'] },
    { name: 'espeak-ng', endings: ['+f1', '+f2'] },
  ],
  languages: ['de', 'en', 'en-gb', 'en-us', 'zh', 'cmn-latn-pinyin'],
};

describe('a voice', () => {
  it.each(['amy', 'amy/1', 'slt', 'espeak-ng/de', 'espeak-ng/de+f2'])('is there: %s', (id) => {
    expect(hasVoice(SPEECH, id)).toBe(true);
  });

  it.each([
    '',
    'Amy',
    'amy/3',
    'amy/',
    'slt+f1',
    'slt/1',
    'espeak-ng',
    'espeak-ng/de+',
    'espeak-ng/de+f3',
    'calm-alto',
  ])('is not there: %j', (id) => {
    expect(hasVoice(SPEECH, id)).toBe(false);
  });
});

describe('a language', () => {
  it.each([
    ['de', 'de'],
    ['DE', 'de'],
    [' de_AT ', 'de'],
    ['de-Latn-CH-1996', 'de'],
    ['en-GB-scotland', 'en-gb'],
    ['en-ZA', 'en'],
    ['zh-Hans-CN', 'zh'],
  ])('%j is spoken as %s', (asked, found) => {
    expect(languageFor(new Set(SPEECH.languages), asked)).toBe(found);
  });

  it.each(['tlh', 'piqd', 'x', 'english', '', '-', 'de;', 'd', 'constructor', '__proto__'])(
    '%j is not',
    (asked) => {
      expect(languageFor(new Set(SPEECH.languages), asked)).toBeUndefined();
    },
  );
});

describe('what is announced', () => {
  it.each<[string, Speech]>([
    ['no voice', { ...SPEECH, voices: [] }],
    ['no language', { ...SPEECH, languages: [] }],
    ['a voice twice', { ...SPEECH, voices: [...SPEECH.voices, { id: 'slt', language: 'de' }] }],
    ['an empty id', { ...SPEECH, voices: [{ id: '', language: 'de' }] }],
    ['an id without end', { ...SPEECH, voices: [{ id: 'x'.repeat(129), language: 'de' }] }],
    ['half a character', { ...SPEECH, voices: [{ id: '\ud83d', language: 'de' }] }],
    ['a language in capitals', { ...SPEECH, voices: [{ id: 'a', language: 'DE' }] }],
    ['another gender', { ...SPEECH, voices: [{ id: 'a', language: 'de', gender: 'neuter' as 'male' }] }],
    ['variants that are not listed', { ...SPEECH, voices: [{ id: 'a', language: 'de', variants: 'b' }] }],
    ['a language that is none', { ...SPEECH, languages: ['German'] }],
    [
      'more voices than fit',
      { ...SPEECH, voices: Array.from({ length: 2049 }, (_, i) => ({ id: `${i}`, language: 'de' })) },
    ],
    [
      'more endings than fit',
      {
        ...SPEECH,
        variants: [
          { name: 'amy', endings: Array(1025).fill('/1') },
          { name: 'espeak-ng', endings: [] },
        ],
      },
    ],
  ])('is at fault with %s', (_what, speech) => {
    expect(speechFault(speech)).toMatch(/\w/);
  });

  it('is right as it is', () => {
    expect(speechFault(SPEECH)).toBeUndefined();
  });

  it('by several is all that any of them has', () => {
    const other: Speech = {
      voices: [
        { id: 'slt', language: 'en', gender: 'female' },
        { id: 'new', language: 'fr' },
      ],
      variants: [{ name: 'espeak-ng', endings: ['+f2', '+m1'] }],
      languages: ['fr', 'de'],
    };
    const all = joined([SPEECH, other]);
    expect(all.voices.map(({ id, language }) => `${id} ${language}`)).toEqual([
      'amy en-gb',
      'slt en-us',
      'espeak-ng/de de',
      'new fr',
    ]);
    expect(hasVoice(all, 'espeak-ng/de+m1')).toBe(true);
    expect(all.languages).toEqual([...SPEECH.languages, 'fr']);
    expect(speechFault(all)).toBeUndefined();
    expect(joined([])).toEqual({ voices: [], variants: [], languages: [] });
  });
});
