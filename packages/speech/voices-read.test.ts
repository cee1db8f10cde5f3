/** @module-tag speech */
import { execFileSync } from 'node:child_process';
import { beforeAll, describe, expect, it } from 'vitest';
import { shareOut } from './parts.ts';
import { passagesOf } from './script-text.ts';
import type { SpeechTools } from './speech-tools.ts';
import { ESPEAK_ARGS, findSpeechTools } from './tools.ts';
import { chooseVoice, reads, voiceOfWriting, WRITTEN_IN } from './voices.ts';
import { WRITINGS } from './writings.ts';

/** A word in each writing system, and another for a language that lacks some of its letters. */
const WORDS: Readonly<Record<string, string>> = {
  Cyrillic: 'мама',
  Greek: 'μαμα',
  Arabic: 'سالام',
  Hebrew: 'שלום',
  Armenian: 'մամա',
  Georgian: 'მამა',
  Ethiopic: 'ሰላም',
  Han: '你好',
  Hiragana: 'こんにちは',
  Katakana: 'カメラ',
  Bopomofo: 'ㄇㄚ',
  Hangul: '한국',
  Thai: 'มานี',
  Myanmar: 'မာမာ',
  Sinhala: 'මම',
  Devanagari: 'नमक',
  Bengali: 'নমক',
  Gurmukhi: 'ਮਕਾਨ',
  Gujarati: 'મકાન',
  'shn Myanmar': 'မႂ်ႇသုင်',
  Oriya: 'ମନ',
  Tamil: 'மனம்',
  Telugu: 'మనం',
  Kannada: 'ಮನ',
  Malayalam: 'മനം',
};
/** This voice spells Chinese letters by name, as the page about Avatar mentions. */
const SPELLED = ['ja Han'];
/** The name of a letter has more sounds, and its code point more than twice as many. */
const MAX_SOUNDS_A_LETTER = 4;

let tools: SpeechTools;
let python: string;
beforeAll(async () => {
  const found = await findSpeechTools();
  if (!found.available || !found.espeak) throw new Error('espeak-ng is not there');
  tools = found;
  python = found.espeak.python;
});

/** Returns the names of the sounds. Names in brackets are languages to which the voice changes. */
function sounds(voice: string, word: string): string[] {
  const out = execFileSync(python, [...ESPEAK_ARGS, voice], { input: `${JSON.stringify(word)}\n` });
  const head = JSON.parse(out.subarray(0, out.indexOf(0x0a)).toString()) as { phonemes: [string, number][] };
  return head.phonemes.map(([name]) => name).filter((name) => /\S/.test(name));
}

describe('a voice of espeak-ng', () => {
  const entries = Object.entries(WRITTEN_IN).flatMap(([voice, writings]) =>
    writings.map((writing) => [voice, writing] as const),
  );

  it.each(entries)('%s is said to read %s, and reads it', (voice, writing) => {
    expect(tools.espeak?.voices).toContain(voice);
    const word = WORDS[`${voice} ${writing}`] ?? (WORDS[writing] as string);
    const said = sounds(voice, word);
    expect(said.length, said.join(' ')).toBeGreaterThanOrEqual(word.length / 2);
    const spelled = said.includes('(en)') || said.length > MAX_SOUNDS_A_LETTER * word.length;
    expect(spelled, said.join(' ')).toBe(SPELLED.includes(`${voice} ${writing}`));
  });

  it.each([
    ['ku', 'Arabic'],
    ['az', 'Cyrillic'],
    ['tk', 'Cyrillic'],
    ['hak', 'Han'],
    ['ko', 'Han'],
    ['cmn', 'Han'],
    ['de', 'Cyrillic'],
  ])('%s spells %s, and is not said to read it', (voice, writing) => {
    const word = WORDS[writing] as string;
    const said = sounds(voice, word);
    expect(said.includes('(en)') || said.length > MAX_SOUNDS_A_LETTER * word.length).toBe(true);
    expect(reads({ program: 'espeak-ng', name: voice }, word[0] as string)).toBe(false);
  });

  it('that it lists and does not find is not there', () => {
    expect(tools.espeak?.voices).not.toContain('chr-US-Qaaa-x-west');
    const man = { program: 'espeak-ng', name: 'de' } as const;
    expect(voiceOfWriting(tools, 'Cherokee', man)).toBeUndefined();
    const { voice } = chooseVoice(tools, [], { language: 'de' });
    expect(() => shareOut(tools, voice, passagesOf('Hallo ᎣᏏᏲ.'))).toThrow(/Cherokee \("ᎣᏏᏲ"\)/);
  });

  it.each(WRITINGS)('is there for %s when no other is wished for', (writing) => {
    for (const like of ['de', 'de+f3']) {
      const voice = voiceOfWriting(tools, writing, { program: 'espeak-ng', name: like });
      expect(voice).toBeDefined();
      expect(voice && reads(voice, WORDS[writing]?.[0] ?? 'a')).toBe(true);
    }
  });
});
