import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { shareOut } from './parts.ts';
import { passagesOf } from './script-text.ts';
import type { SpeechTools } from './speech-tools.ts';
import { voiceId } from './voices.ts';

const names = ['en-us', 'ru', 'el', 'ja', 'cmn-latn-pinyin', 'fa', 'ar', 'de'];
const both: SpeechTools = {
  available: true,
  flite: { file: '/usr/bin/flite', voices: ['slt'] },
  espeak: { python: '/usr/bin/python3', voices: new Set(names) },
  isolation: { wall: undefined, unshare: [], stands: [], missing: [] },
};
const onlyFlite: SpeechTools = { ...both, espeak: undefined };
const SLT = { program: 'flite', name: 'slt' } as const;
const GERMAN = { program: 'espeak-ng', name: 'de' } as const;

function shared(script: string, chosen: typeof SLT | typeof GERMAN = SLT, tools = both) {
  const { parts, leftOut } = shareOut(tools, chosen, passagesOf(script));
  return [...parts.map(({ text, voice }) => `${voiceId(voice)}: ${text}`), ...leftOut];
}

describe('a script is shared out', () => {
  it.each([
    ['Only this.', ['slt: Only this.']],
    ['My name is Иван.', ['slt: My name is', 'espeak-ng/ru+f2: Иван.']],
    [
      'He says “Привет, мир”, and then (よし!) goes.',
      [
        ...['slt: He says', 'espeak-ng/ru+f2: “Привет, мир”,', 'slt: and then', 'espeak-ng/ja+f2: (よし!)'],
        'slt: goes.',
      ],
    ],
    ['我喜欢Иван', ['espeak-ng/cmn-latn-pinyin+f2: 我喜欢', 'espeak-ng/ru+f2: Иван']],
    ['ㄅㄆㄇ', ['espeak-ng/cmn-latn-pinyin+f2: ㄅㄆㄇ']],
    [
      'The angle θ is 5 µm.',
      ['slt: The angle', 'espeak-ng/el+f2: θ', 'slt: is 5', 'espeak-ng/en-us+f2: µm.'],
    ],
    ['PDF\u200Cها را', ['espeak-ng/ar+f2: PDF\u200Cها را']],
    ['A ʼokina, x² and Ⅷ, ½.', ['slt: A ʼokina, x² and VIII, ½.']],
    ['❶ First, ② then.', ['slt: First, 2 then.', '❶ (Symbol)']],
    [
      'Type ក, ɓ and \u{13000}.',
      [
        'slt: Type  ,',
        'espeak-ng/en-us+f2: ɓ',
        'slt: and   .',
        'ក (Khmer)',
        '\u{13000} (Egyptian Hieroglyphs)',
      ],
    ],
  ])('of %j among voices that read it', (script, parts) => {
    expect(shared(script)).toEqual(parts);
  });

  it('leaves to espeak-ng what its voice reads, and not what it would spell', () => {
    expect(shared('Das ist Иван, ❶.', GERMAN)).toEqual([
      ...['espeak-ng/de: Das ist', 'espeak-ng/ru: Иван,  .', '❶ (Symbol)'],
    ]);
  });

  it('keeps to the one voice that is there, and says which letters it leaves out', () => {
    expect(shared('Ten µm of ɓera and я.', SLT, onlyFlite)).toEqual([
      ...['slt: Ten  m of  era and  .', 'µ (Symbol)', 'ɓ (Latin)', 'я (Cyrillic)'],
    ]);
  });

  it('knows which part ends a paragraph', () => {
    const { parts } = shareOut(both, SLT, passagesOf('Hello Иван and\ngoodbye Мама.'));
    expect(parts.map(({ endsParagraph }) => endsParagraph)).toEqual([false, false, true, false, true]);
  });

  it.each([
    ['Hello there. សួស្តី Good bye.', both, 'Khmer ("សួស្តី")'],
    ['5ꀀꀁ ok ሰላም', both, 'Yi, Ethiopic ("5ꀀꀁ", "ሰላም")'],
    ['Hello Иван', onlyFlite, 'Cyrillic ("Иван")'],
    ['ក', both, 'Khmer ("ក")'],
    ['𐔰𐔱 \u{10410}\u{10411}', both, 'U+10530, Deseret'],
    ['កខ '.repeat(8), both, 'Khmer ("កខ", "កខ", "កខ", "កខ", "កខ" and 3 more)'],
  ])('unless it has words that nobody reads: %j', (script, tools, named) => {
    expect(() => shared(script, SLT, tools)).toThrow(
      expect.objectContaining({ code: 'processing_failed', message: expect.stringContaining(named) }),
    );
  });

  it('and no letter is lost that is not named, nor said by a voice that would leave it out', () => {
    const letters = (text: string) => [...text].filter((sign) => /[\p{L}\p{N}]/u.test(sign)).join('');
    const script = fc.array(fc.constantFrom(...'ab Иθ我の5، ½ក❶“.é'), { maxLength: 60 });
    fc.assert(
      fc.property(script, fc.constantFrom(SLT, GERMAN), (signs, chosen) => {
        const passages = passagesOf(signs.join('').replace(/ក+/g, ' ក '));
        const whole = letters(passages.map(({ text }) => text).join(' '));
        if (whole.replace(/[ក❶]/g, '') === '') return;
        const { parts, leftOut } = shareOut(both, chosen, passages);
        expect(letters(parts.map(({ text }) => text).join(' '))).toBe(whole.replace(/[ក❶]/g, ''));
        expect(leftOut.length).toBe(new Set(whole.match(/[ក❶]/g)).size);
      }),
    );
  });
});
