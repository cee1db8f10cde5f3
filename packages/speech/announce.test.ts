import { hasVoice, languageFor, speechFault } from '@semblance/engine-api/speech';
import { expect, it } from 'vitest';
import { announcedSpeech, soundingOf } from './announce.ts';
import { passagesOf } from './script-text.ts';
import type { NeuralVoice, SpeechTools } from './speech-tools.ts';
import { findSpeechTools } from './tools.ts';
import { chooseVoice, soundsLike, voiceId } from './voices.ts';

const NEURAL: NeuralVoice = {
  name: 'thorsten',
  language: 'de-de',
  espeak: 'de',
  sounding: 'man',
  speakers: new Map([
    ['calm', 0],
    ['angry', 1],
  ]),
  sampleRate: 22_050,
  phonemeIds: new Map(),
  run: () => Promise.reject(new Error('not spoken here')),
};
const TOOLS: SpeechTools = {
  available: true,
  flite: { file: '/usr/bin/flite', voices: ['slt', 'rms', 'awb'] },
  espeak: {
    python: '/usr/bin/python3',
    voices: new Set(['en-us', 'en-gb', 'de', 'cmn-latn-pinyin', 'pt-br']),
  },
  neural: [NEURAL],
  isolation: { wall: undefined, unshare: [], stands: [], missing: [] },
};

const SCRIPT = passagesOf('Hello');

/** Returns whether a render with this `voice_id` finds its voice. */
function finds(tools: SpeechTools, id: string): boolean {
  try {
    return voiceId(chooseVoice(tools, SCRIPT, { voiceId: id }).voice) === id;
  } catch {
    return false;
  }
}

it('every announced voice and variant is one that a render finds, and has the gender that it sounds like', () => {
  const speech = announcedSpeech(TOOLS);
  if (!speech) throw new Error('nothing is announced');
  expect(speech.voices.map(({ id }) => id)).toEqual([
    'thorsten',
    ...['slt', 'rms', 'awb'],
    ...['espeak-ng/cmn-latn-pinyin', 'espeak-ng/de', 'espeak-ng/en-gb', 'espeak-ng/en-us', 'espeak-ng/pt-br'],
  ]);
  const lists = new Map(speech.variants?.map(({ name, endings }) => [name, endings]));
  for (const { id, gender, variants } of speech.voices) {
    const endings = variants === undefined ? [] : (lists.get(variants) ?? []);
    for (const each of ['', ...endings]) expect(finds(TOOLS, id + each), id + each).toBe(true);
    const { voice } = chooseVoice(TOOLS, SCRIPT, { voiceId: id });
    expect(soundingOf(gender), id).toBe(soundsLike(voice));
  }
  expect(lists.get('espeak-ng')).toHaveLength(13);
});

it('a voice or a language is valid before the render exactly if the render finds it', () => {
  const speech = announcedSpeech(TOOLS);
  if (!speech) throw new Error('nothing is announced');
  for (const id of [
    ...['slt', 'kal', 'thorsten', 'thorsten/calm', 'thorsten/', 'thorsten/loud', 'Slt', ''],
    ...[
      'espeak-ng/de',
      'espeak-ng/de+f2',
      'espeak-ng/de+f6',
      'espeak-ng/de+',
      'espeak-ng/fr',
      'espeak-ng/',
      'de',
    ],
  ])
    expect(hasVoice(speech, id), id).toBe(finds(TOOLS, id));
  const languages = new Set(speech.languages);
  for (const language of [
    'en',
    'EN',
    'en_GB',
    'de-AT',
    'zh',
    'zh-HK',
    'pt',
    'pt-BR',
    'fr',
    'tlh',
    '',
    'x y',
    'no',
    'iw',
  ])
    expect(languageFor(languages, language) === undefined, language).toBe(
      chooseVoice(TOOLS, SCRIPT, { language }).languageUnknown,
    );
});

it('what the voice is to sound like changes the voice, never the language', () => {
  for (const language of [undefined, 'en', 'en-GB', 'de', 'zh', 'pt-BR'])
    for (const tools of [TOOLS, { ...TOOLS, neural: [] }, { ...TOOLS, flite: undefined }]) {
      const speech = announcedSpeech(tools);
      const spoken = (sounding?: 'woman' | 'man') => {
        const { voice } = chooseVoice(tools, SCRIPT, { language, sounding });
        const id = voiceId(voice);
        const of = speech?.voices.find((one) => id === one.id || id.startsWith(`${one.id}+`));
        return { language: of?.language.split('-')[0], sounds: soundsLike(voice) };
      };
      for (const sounding of ['woman', 'man'] as const)
        expect(spoken(sounding), `${language} ${sounding}`).toEqual({
          language: spoken().language,
          sounds: sounding,
        });
    }
});

it('without a synthesiser’s part there is only the other’s, and what cannot be announced is left out', () => {
  expect(announcedSpeech({ ...TOOLS, espeak: undefined, neural: [] })?.languages).toEqual(['en', 'en-us']);
  expect(announcedSpeech({ ...TOOLS, flite: undefined, neural: [] })?.voices[0]?.id).toMatch(/^espeak-ng/);
  const many = new Map(Array.from({ length: 1_025 }, (_, i) => [`s${i}`, i]));
  expect(announcedSpeech({ ...TOOLS, neural: [{ ...NEURAL, speakers: many }] })).toBeUndefined();
});

it('the synthesisers of this machine can be announced', async ({ skip }) => {
  const found = await findSpeechTools();
  if (!found.available) return skip();
  const speech = announcedSpeech(found);
  expect(speech && speechFault(speech)).toBeUndefined();
  expect(speech?.voices.length).toBeGreaterThan(0);
  // It is part of every status that an agent writes.
  expect(JSON.stringify(speech).length).toBeLessThan(40_000);
});
