import { describe, expect, it } from 'vitest';
import { passagesOf } from './script-text.ts';
import type { NeuralVoice, Sounding, SpeechTools } from './speech-tools.ts';
import { chooseVoice, soundsLike, voiceFor, voiceId } from './voices.ts';

const espeak = {
  python: '/usr/bin/python3',
  voices: new Set([
    'en-us',
    'en-gb',
    'de',
    'fr-fr',
    'pt',
    'pt-br',
    'ru',
    'uk',
    'cmn-latn-pinyin',
    'yue',
    'he',
    'sr',
  ]),
};
const both: SpeechTools = {
  available: true,
  flite: { file: '/usr/bin/flite', voices: ['slt', 'rms'] },
  espeak,
  isolation: { wall: undefined, unshare: [], stands: [], missing: [] },
};
const onlyEspeak: SpeechTools = { ...both, flite: undefined };
const onlyFlite: SpeechTools = { ...both, espeak: undefined };

function chosen(
  script: string,
  wish: { voiceId?: string; language?: string; sounding?: Sounding } = {},
  tools = both,
) {
  const { voice, languageUnknown } = chooseVoice(tools, passagesOf(script), wish);
  return `${voiceId(voice)}${languageUnknown ? ' (language unknown)' : ''}`;
}

describe('the voice of a script', () => {
  it.each([
    [undefined, 'Hello', 'slt'],
    ['en', 'Hello', 'slt'],
    ['en-US', 'Hello', 'slt'],
    ['en-GB', 'Hello', 'espeak-ng/en-gb'],
    ['en-ZA', 'Hello', 'slt'],
    ['de-AT', 'Hallo', 'espeak-ng/de'],
    ['de-Latn-CH-1996', 'Hallo', 'espeak-ng/de'],
    ['fr', 'Bonjour', 'espeak-ng/fr-fr'],
    ['pt_BR', 'Olá', 'espeak-ng/pt-br'],
    ['zh-Hans-CN', '你好', 'espeak-ng/cmn-latn-pinyin'],
    ['zh-HK', '你好', 'espeak-ng/yue'],
    ['iw', 'שלום', 'espeak-ng/he'],
    ['tlh', 'Hello', 'slt (language unknown)'],
    ['english please', 'Hello', 'slt (language unknown)'],
    ['-v', 'Hello', 'slt (language unknown)'],
    ['zz', 'Привет', 'espeak-ng/ru (language unknown)'],
    [undefined, '... 你好', 'espeak-ng/cmn-latn-pinyin'],
    [undefined, '42', 'slt'],
  ])('for the language %j and %j is %s', (language, script, voice) => {
    expect(chosen(script, language === undefined ? {} : { language })).toBe(voice);
  });

  it.each([
    ['woman', undefined, 'Hello', 'slt'],
    ['man', undefined, 'Hello', 'rms'],
    ['woman', 'en-GB', 'Hello', 'espeak-ng/en-gb+f2'],
    ['man', 'en-GB', 'Hello', 'espeak-ng/en-gb'],
    ['woman', 'de', 'Hallo', 'espeak-ng/de+f2'],
    ['man', 'de', 'Hallo', 'espeak-ng/de'],
    ['woman', undefined, 'Привет', 'espeak-ng/ru+f2'],
  ] as const)('for a %s, the language %j and %j is %s', (sounding, language, script, voice) => {
    expect(chosen(script, { sounding, ...(language ? { language } : {}) })).toBe(voice);
  });

  it.each([
    ['slt', 'woman'],
    ['rms', 'man'],
    ['espeak-ng/de', 'man'],
    ['espeak-ng/de+f3', 'woman'],
    ['espeak-ng/de+m3', 'man'],
  ])('%s sounds like a %s', (voiceId, like) => {
    expect(soundsLike(chooseVoice(both, [], { voiceId }).voice)).toBe(like);
  });

  it('is the language’s own when there is none that sounds so', () => {
    const flite = { file: '/usr/bin/flite', voices: ['slt'] };
    expect(chosen('Hello', { sounding: 'man' }, { ...onlyFlite, flite })).toBe('slt');
    expect(soundsLike({ program: 'flite', name: 'new' })).toBeUndefined();
  });

  it('is the one that was asked for, whatever the language', () => {
    expect(chosen('Hello', { voiceId: 'rms', language: 'de' })).toBe('rms');
    expect(chosen('Hello', { voiceId: 'rms', sounding: 'woman' })).toBe('rms');
    expect(chosen('Hello', { voiceId: 'espeak-ng/pt-br+f3' })).toBe('espeak-ng/pt-br+f3');
  });

  it.each([
    'nobody',
    'SLT',
    'awb',
    'espeak-ng/',
    'espeak-ng/xx',
    'espeak-ng/../de',
    'espeak-ng/de+../f1',
    'de',
    '-h',
    'toString',
  ])('%j is refused, and the message names the voices', (id) => {
    expect(() => chosen('Hello', { voiceId: id })).toThrow(
      expect.objectContaining({
        code: 'processing_failed',
        message: expect.stringMatching(
          /There is no voice .* There are slt, rms, espeak-ng\/<language> for 12 languages/,
        ),
      }),
    );
  });

  it('is another program’s where one is missing', () => {
    expect(chosen('Hello', {}, onlyEspeak)).toBe('espeak-ng/en-us');
    expect(chosen('Hello', { language: 'en-GB' }, onlyFlite)).toBe('slt');
    expect(chosen('Hallo', { language: 'de' }, onlyFlite)).toBe('slt (language unknown)');
    expect(() => chosen('Hello', { voiceId: 'slt' }, onlyEspeak)).toThrow(/no voice "slt"/);
  });

  it('gives way for letters that it cannot read', () => {
    const speaks = (tools: SpeechTools, voice: string, script: string) => {
      const { voice: own } = chooseVoice(tools, [], { voiceId: voice });
      return passagesOf(script).map((passage) => voiceId(voiceFor(tools, own, passage)));
    };
    expect(speaks(both, 'slt', 'Hello. Привет. 5.')).toEqual(['slt', 'espeak-ng/ru+f2']);
    expect(speaks(both, 'rms', 'Hello. Привет.')).toEqual(['rms', 'espeak-ng/ru']);
    expect(speaks(both, 'espeak-ng/uk', 'Привіт. Hello.')).toEqual(['espeak-ng/uk', 'espeak-ng/uk']);
    expect(speaks(both, 'espeak-ng/sr', 'Здраво. Zdravo.')).toEqual(['espeak-ng/sr', 'espeak-ng/sr']);
    expect(speaks(both, 'espeak-ng/de+f2', '你好。')).toEqual(['espeak-ng/cmn-latn-pinyin+f2']);
    expect(speaks(onlyFlite, 'slt', 'Привет.')).toEqual(['slt']);
  });
});

describe('voices that are models', () => {
  const model = (name: string, language: string, more: Partial<NeuralVoice> = {}): NeuralVoice => ({
    name,
    language,
    espeak: language,
    sounding: 'man',
    speakers: new Map(),
    sampleRate: 22_050,
    phonemeIds: new Map(),
    run: () => Promise.reject(new Error('it does not speak')),
    ...more,
  });
  const owned: SpeechTools = {
    ...both,
    neural: [
      model('joe', 'en-us'),
      model('amy', 'en-us', { sounding: 'woman' }),
      model('ru_RU-irina', 'ru-ru', { espeak: 'ru', sounding: 'woman' }),
      model('fr_FR-siwis', 'fr-fr', { espeak: 'fr', sounding: undefined }),
      model('en_GB-alan', 'en-gb', { espeak: 'en-gb-x-rp' }),
      model('zh', 'zh-cn', { espeak: 'cmn' }),
    ],
  };

  it.each([
    [undefined, undefined, 'Hello', 'joe'],
    [undefined, 'woman', 'Hello', 'amy'],
    ['en-US', 'man', 'Hello', 'joe'],
    ['en-GB', undefined, 'Hello', 'en_GB-alan'],
    ['en-GB', 'woman', 'Hello', 'espeak-ng/en-gb+f2'],
    ['fr', undefined, 'Bonjour', 'fr_FR-siwis'],
    ['fr', 'man', 'Bonjour', 'espeak-ng/fr-fr'],
    ['de', undefined, 'Hallo', 'espeak-ng/de'],
    [undefined, undefined, 'Привет', 'ru_RU-irina'],
    [undefined, 'man', 'Привет', 'espeak-ng/ru'],
  ] as const)('for the language %j, a %s and %j: %s', (language, sounding, script, voice) => {
    expect(chosen(script, { ...(language && { language }), ...(sounding && { sounding }) }, owned)).toBe(
      voice,
    );
  });

  it('are there by name, and speak the letters of their language', () => {
    expect(chosen('Hallo', { voiceId: 'ru_RU-irina' }, owned)).toBe('ru_RU-irina');
    expect(soundsLike(chooseVoice(owned, [], { voiceId: 'amy' }).voice)).toBe('woman');
    const speaks = (voice: string, script: string) => {
      const { voice: own } = chooseVoice(owned, [], { voiceId: voice });
      return passagesOf(script).map((passage) => voiceId(voiceFor(owned, own, passage)));
    };
    expect(speaks('ru_RU-irina', 'Привет. Hello.')).toEqual(['ru_RU-irina', 'ru_RU-irina']);
    expect(speaks('amy', 'Hello. Привет.')).toEqual(['amy', 'ru_RU-irina']);
    expect(speaks('joe', 'Hello. Привет.')).toEqual(['joe', 'espeak-ng/ru']);
  });

  it('are named where a voice is not there', () => {
    expect(() => chosen('Hello', { voiceId: 'joe/ann' }, owned)).toThrow(
      /There is no voice "joe\/ann" \(voice_id\)\. There are joe \(en-us\), amy \(en-us\), .*, slt, rms, espeak-ng/,
    );
  });
});
