import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toAscii } from './ascii.ts';
import { asciiDigit, cleanText, passagesOf } from './script-text.ts';
import { writingOf } from './writings.ts';

/**
 * Returns the visible letters and digits: digits as 0 to 9, all in their plain form. Pictures have none, but ™ is
 * read as TM.
 */
const letters = (text: string): string =>
  [
    ...text
      .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
      .replace(/(?![©®™])\p{Extended_Pictographic}/gu, ' ')
      .normalize('NFKC'),
  ]
    .filter((sign) => /[\p{L}\p{Nd}]/u.test(sign))
    .map((sign) => (/\p{Nd}/u.test(sign) ? asciiDigit(sign) : sign))
    .join('');

describe('a script', () => {
  it.each([
    ['controls, an escape sequence, and espeak-ng’s own command', 'a\0b\u0001 50P\u001b[0mc', 'a b 50P [0mc'],
    ['halves of characters', 'a\ud800b\udc00', 'a b'],
    ['marks of direction', '\u202Eabc\u202C \u2066d\u2069\u200Fe', 'abc de'],
    ['emoji of a family, a flag, a tone of skin and a key', 'hi 👨‍👩‍👧 🇫🇷 👍🏽 #️⃣ ok 😀', 'hi # ok'],
    ['signs that are emoji elsewhere', '5 * 3 # 1, © A™', '5 * 3 # 1, © ATM'],
    ['soft hyphens and spaces of no width', 'hy\u00ADphen zero\u200Bwidth\uFEFF', 'hyphen zerowidth'],
    ['word joiners and marks of direction in words', 're\u2060ad co\u200Eop\uFEFFerate', 'read cooperate'],
    ['choices of glyphs and tags in words', 'f\uFE0Fun 葛\u{E0100}城 a\u{E0061}b ᠮ\u180Bᠣ', 'fun 葛城 ab ᠮᠣ'],
    ['what is invisible before an accent', 'cafe\u2060\u0301', 'café'],
    [
      'joiners of letters that need none',
      'Auf\u200Clage re\u200Dad ه\u200D مر\u200Dحبا',
      'Auflage read ه مرحبا',
    ],
    ['joiners around letters that have no sign', 'র\u200D্যাব क\u200Dमल', 'র্যাব कमल'],
    ['joiners beside emoji', 'a\u200D❤️\u200Db ☝🏽\u200C', 'a b'],
    ['signs of a note between the lines', '漢\uFFFAかん\uFFFB字', '漢 かん 字'],
    ['digits of other writings', '٣٬٤٥٦٫٧ ۱۴۰۳ ३० 𝟙𝟚 ９ ២', '3,456.7 1403 30 12 9 2'],
    ['letters of full and half width', 'これはＮＨＫのﾆｭｰｽﾊﾟﾝ。', 'これはNHKのニュースパン。'],
    ['bold, script, raised and framed letters', '𝐆𝐮𝐭𝐞𝐧 𝒯𝒶𝓰 Mᵐᵉ Ⓐ⒝🄲', 'Guten Tag Mme A(b)C'],
    [
      'Roman numerals and numbers in frames',
      'Louis ⅩⅣ, Punkt ② und ③④ ⒌ ㈠',
      'Louis XIV, Punkt 2 und 3 4 5. (一)',
    ],
    ['presentation forms', 'ﻣﺮﺣﺒﺎ ﷲ שּׁ ﬁn ﬔ', 'مرحبا الله שּׁ fin մե'],
    ['letters in bold under an accent', 'caf𝐞\u0301 ſoft', 'café soft'],
    ['signs of full width', '５０％ ３．５ Ａ＆Ｂ ２：１ ５②', '50% 3.5 A&B 2:1 5 2'],
    [
      'nothing that a voice reads as it is',
      '½ x² H₂O 1ª µm ทำ և ㄱ、！？（）',
      '½ x² H₂O 1ª µm ทำ և ㄱ、！？（）',
    ],
    ['all ends of lines', 'a\r\nb\rc\u2028d\u0085e', 'a\nb\nc\nd\ne'],
    ['private and unassigned characters', 'a\uE000b\u{10FFFF}c\u0378d', 'a b c d'],
  ])('is cleaned of %s', (_what, script, clean) => {
    expect(cleanText(script)).toBe(clean);
  });

  it.each([
    ['Persian', 'می\u200Cخواهم کتاب\u200Cها'],
    ['Persian, after digits and other letters', '5\u200Cام PDF\u200Cها'],
    ['Sinhala', 'ශ්\u200Dරී'],
    ['Malayalam', 'അവന്\u200D'],
    ['Hindi', 'क्\u200Dष राष्ट्\u200Cर'],
  ])('keeps the joiners that %s is written with', (_language, script) => {
    expect(cleanText(script)).toBe(script);
    expect(cleanText(script.replace(/[\u200C\u200D]/g, '\u200F$&$&\u2060'))).toBe(script);
  });

  it.each(['', ' \n ', '!!! … 😀 ,', '\u202E\u0007', '---'])('has nothing to say: %j', (script) => {
    expect(passagesOf(script)).toEqual([]);
  });

  it('is cut where its writing changes, and knows where paragraphs end', () => {
    expect(passagesOf('Hello there. How are you?\nПривет, мир. 你好。 こんにちは、世界。')).toEqual([
      { text: 'Hello there. How are you?', writing: 'Latin', endsParagraph: true },
      { text: 'Привет, мир.', writing: 'Cyrillic', endsParagraph: false },
      { text: '你好。', writing: 'Han', endsParagraph: false },
      { text: 'こんにちは、世界。', writing: 'Hiragana', endsParagraph: true },
    ]);
    expect(writingOf('12 + 3')).toBeUndefined();
  });

  it.each([
    ['letters', 'a'.repeat(5000)],
    ['digits', '9'.repeat(5000)],
    ['Chinese', '我是老师你好'.repeat(833)],
    ['characters of two halves', '𝒜'.repeat(5000)],
    ['characters of two halves that have no other shape', '𠮷'.repeat(5000)],
    ['words in one character', 'ﷺ'.repeat(5000)],
    ['letters with marks', 'e\u0301'.repeat(2500)],
    ['words without a stop', 'many words '.repeat(454)],
  ])('of 5,000 %s in one row is spoken whole, in passages that can be held', (_what, script) => {
    const passages = passagesOf(script);
    expect(passages.map(({ text }) => letters(text)).join('')).toBe(letters(script));
    for (const { text } of passages) {
      expect(text.length).toBeLessThanOrEqual(500);
      expect(text.isWellFormed()).toBe(true);
      expect(text).not.toMatch(/^\p{M}/u);
    }
  });

  it('loses no letter of any writing, whatever it is made of', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (script) => {
        const said = passagesOf(script)
          .map(({ text }) => text)
          .join(' ');
        expect(letters(said)).toBe(letters(script));
        expect(said).not.toMatch(/[\p{Cc}\p{Cs}\p{Co}]/u);
      }),
    );
  });

  it('says every sign that stands for letters or digits', () => {
    const silent: string[] = [];
    for (let code = 0; code < 0x110000; code++) {
      const sign = String.fromCodePoint(code);
      if (letters(sign) !== '' && passagesOf(sign).length === 0) silent.push(code.toString(16));
    }
    expect(silent).toEqual([]);
    expect(passagesOf('㉠ 5㎏').map(({ text }) => text)).toEqual(['ᄀ 5 kg']);
  });

  it('of English is told to flite in its letters', () => {
    expect(toAscii('“Naïve café” — it’s ½ of £5… Straße ٣ 😀')).toBe(
      `"Naive cafe" ,  it's  one half  of  pounds 5... Strasse 3`,
    );
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(toAscii(text)).toMatch(/^[\x20-\x7E]*$/);
      }),
    );
  });
});
