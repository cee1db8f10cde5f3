import { RenderError } from '@semblance/engine-api/engine';
import { languageFor } from '@semblance/engine-api/speech';
import { toAscii } from './ascii.ts';
import type { Passage } from './script-text.ts';
import type { NeuralVoice, Sounding, SpeechTools } from './speech-tools.ts';
import { writingOfLetter } from './writings.ts';

/** One voice of one synthesiser. */
export interface Voice {
  readonly program: 'flite' | 'espeak-ng' | 'model';
  /** The program's name of the voice, or the model's name. */
  readonly name: string;
  /** Of a model: name of one of several speakers; default the first. */
  readonly speaker?: string;
  /** Of a model: espeak-ng's voice that reads for it, and what it sounds like. */
  readonly espeak?: string;
  readonly sounding?: Sounding | undefined;
}

const ESPEAK_PREFIX = 'espeak-ng/';
/** Most voices of the owner that a message names. */
const MAX_NAMED = 12;
/** espeak-ng's variants that sound like separate voices. */
const VARIANTS = /^(.+?)(\+(?:f[1-5]|m[1-8]))?$/;
/** The same, as endings of a `voice_id`. */
export const ESPEAK_VARIANTS: readonly string[] = [
  ...[1, 2, 3, 4, 5].map((n) => `+f${n}`),
  ...[1, 2, 3, 4, 5, 6, 7, 8].map((n) => `+m${n}`),
];

/** Voices of flite by what they sound like. */
const FLITE_SOUNDS: Readonly<Record<string, Sounding>> = { slt: 'woman', rms: 'man', awb: 'man', kal: 'man' };
/** espeak-ng's variant that stands for a woman where none was named. */
const WOMAN = '+f2';

/** Default language of a writing system: that of most of its readers. */
const BY_WRITING: Readonly<Record<string, string>> = {
  Latin: 'en-us',
  Cyrillic: 'ru',
  Greek: 'el',
  Arabic: 'ar',
  Hebrew: 'he',
  Armenian: 'hy',
  Georgian: 'ka',
  Ethiopic: 'am',
  Han: 'cmn-latn-pinyin',
  Hiragana: 'ja',
  Katakana: 'ja',
  Bopomofo: 'cmn-latn-pinyin',
  Hangul: 'ko',
  Thai: 'th',
  Myanmar: 'my',
  Sinhala: 'si',
  Devanagari: 'hi',
  Bengali: 'bn',
  Gurmukhi: 'pa',
  Gujarati: 'gu',
  Oriya: 'or',
  Tamil: 'ta',
  Telugu: 'te',
  Kannada: 'kn',
  Malayalam: 'ml',
};

/**
 * Writing systems that a voice reads besides Latin, by espeak-ng's name of its language. Systems whose letters it
 * only spells by name or number are left out, even if the language uses them: Kurdish in Arabic letters,
 * Azerbaijani and Turkmen in Cyrillic ones, Korean and Hakka in Chinese ones. Japanese is included, because it
 * cannot be cut out of its sentences.
 */
export const WRITTEN_IN: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(
    [
      ...['ru', 'ru-lv', 'uk', 'be', 'bg', 'mk', 'kk', 'ky', 'tt', 'ba', 'cv', 'nog'],
      ...['sr', 'bs', 'hr', 'uz'],
    ].map((name) => [name, ['Cyrillic']]),
  ),
  ...Object.fromEntries(['ar', 'fa', 'ur', 'sd', 'ug'].map((name) => [name, ['Arabic']])),
  ...Object.fromEntries(['hi', 'mr', 'ne', 'kok', 'bpy'].map((name) => [name, ['Devanagari', 'Bengali']])),
  el: ['Greek'],
  grc: ['Greek'],
  he: ['Hebrew'],
  hy: ['Armenian'],
  hyw: ['Armenian'],
  ka: ['Georgian'],
  am: ['Ethiopic'],
  ja: ['Hiragana', 'Katakana', 'Han'],
  ko: ['Hangul'],
  // `cmn` takes Chinese characters for English words with numbers.
  cmn: ['Bopomofo'],
  'cmn-latn-pinyin': ['Han', 'Bopomofo'],
  yue: ['Han'],
  th: ['Thai'],
  my: ['Myanmar'],
  shn: ['Myanmar'],
  si: ['Sinhala'],
  bn: ['Bengali'],
  as: ['Bengali'],
  pa: ['Gurmukhi'],
  gu: ['Gujarati'],
  or: ['Oriya'],
  ta: ['Tamil'],
  te: ['Telugu'],
  kn: ['Kannada'],
  ml: ['Malayalam'],
};

/** BCP 47 names of languages that have another name in espeak-ng. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  en: 'en-us',
  fr: 'fr-fr',
  'fr-ca': 'fr-fr',
  zh: 'cmn-latn-pinyin',
  cmn: 'cmn-latn-pinyin',
  'zh-hk': 'yue',
  'zh-mo': 'yue',
  'zh-yue': 'yue',
  no: 'nb',
  nn: 'nb',
  'es-mx': 'es-419',
  'es-us': 'es-419',
  'es-ar': 'es-419',
  'es-co': 'es-419',
  'es-cl': 'es-419',
  'es-pe': 'es-419',
  iw: 'he',
  in: 'id',
  ji: 'de',
  sh: 'hr',
  fil: 'id',
  tl: 'id',
  'en-sc': 'en-gb-scotland',
  'pt-pt': 'pt',
};

export interface Choice {
  readonly voice: Voice;
  /** Whether the hint named no language that can be spoken. */
  readonly languageUnknown: boolean;
}

/** Returns the name of a voice in the API and in the details of a result. */
export function voiceId({ program, name, speaker }: Voice): string {
  if (program === 'espeak-ng') return `${ESPEAK_PREFIX}${name}`;
  return speaker === undefined ? name : `${name}/${speaker}`;
}

/** Returns what a voice sounds like; undefined where that is not known. */
export function soundsLike({ program, name, sounding: known }: Voice): Sounding | undefined {
  if (program === 'model') return known;
  if (program === 'flite') return Object.hasOwn(FLITE_SOUNDS, name) ? FLITE_SOUNDS[name] : undefined;
  return VARIANTS.exec(name)?.[2]?.startsWith('+f') ? 'woman' : 'man';
}

export interface VoiceWish {
  readonly voiceId?: string | undefined;
  readonly language?: string | undefined;
  /** What a default voice is to sound like; undefined: whatever the language's default is. */
  readonly sounding?: Sounding | undefined;
}

/**
 * Returns the voice of a script. A `voice_id` is obeyed or refused; a `language` is only a hint. Without either, or
 * with an unknown hint, the letters of the script decide.
 * @throws RenderError `processing_failed` for a voice that does not exist
 */
export function chooseVoice(tools: SpeechTools, passages: readonly Passage[], wish: VoiceWish): Choice {
  if (wish.voiceId !== undefined) return { voice: namedVoice(tools, wish.voiceId), languageUnknown: false };
  const hint = wish.language;
  const language = hint === undefined ? undefined : languageNamed(tools, hint);
  if (language !== undefined)
    return { voice: voiceOf(tools, language, wish.sounding), languageUnknown: false };
  const first = passages.find(({ writing }) => writing !== undefined);
  return {
    voice: voiceOf(tools, BY_WRITING[first?.writing ?? 'Latin'] ?? 'en-us', wish.sounding),
    languageUnknown: hint !== undefined,
  };
}

/** Returns the voice of one passage: the chosen one, or another one if it cannot read the letters. */
export function voiceFor(tools: SpeechTools, chosen: Voice, { writing }: Passage): Voice {
  if (writing === undefined || readsWriting(chosen, writing)) return chosen;
  return voiceOfWriting(tools, writing, chosen) ?? chosen;
}

/**
 * Returns the voice of a writing system that the chosen voice cannot read; undefined if there is none.
 * @param like the chosen voice: the other one sounds like it
 */
export function voiceOfWriting(tools: SpeechTools, writing: string, like: Voice): Voice | undefined {
  const { espeak } = tools;
  const name = Object.hasOwn(BY_WRITING, writing) ? BY_WRITING[writing] : undefined;
  if (name === undefined) return undefined;
  const model = modelOf(tools, name, soundsLike(like));
  if (model) return model;
  return espeak?.voices.has(name) ? sounding(name, soundsLike(like)) : undefined;
}

/** Returns espeak-ng's voice of a language that sounds like a woman or a man. */
function sounding(name: string, like: Sounding | undefined): Voice {
  return { program: 'espeak-ng', name: like === 'woman' ? `${name}${WOMAN}` : name };
}

/**
 * Returns whether a voice reads a letter or digit as such. flite skips other letters, and espeak-ng spells their
 * code points.
 */
export function reads(voice: Voice, letter: string): boolean {
  const writing = writingOfLetter(letter);
  if (voice.program === 'flite') {
    // Among the letters that writing systems share, modifiers have no sound.
    return /[a-z0-9]/i.test(toAscii(letter)) || (writing === undefined && /\p{Lm}/u.test(letter));
  }
  return writing === undefined || readsWriting(voice, writing);
}

function readsWriting({ program, name, espeak = name }: Voice, writing: string): boolean {
  // Every voice of espeak-ng reads Latin letters, some with another language's sounds.
  if (writing === 'Latin') return true;
  return program !== 'flite' && (WRITTEN_IN[VARIANTS.exec(espeak)?.[1] ?? espeak] ?? []).includes(writing);
}

function namedVoice(tools: SpeechTools, id: string): Voice {
  const { flite, espeak, neural = [] } = tools;
  const model = neural.find(({ name }) => id === name || id.startsWith(`${name}/`));
  const speaker = model && id.length > model.name.length ? id.slice(model.name.length + 1) : undefined;
  if (model && (speaker === undefined || model.speakers.has(speaker))) return asVoice(model, speaker);
  if (flite?.voices.includes(id)) return { program: 'flite', name: id };
  if (espeak && id.startsWith(ESPEAK_PREFIX)) {
    const name = id.slice(ESPEAK_PREFIX.length);
    const base = VARIANTS.exec(name)?.[1];
    if (base !== undefined && espeak.voices.has(base)) return { program: 'espeak-ng', name };
  }
  const known = [
    ...neural.slice(0, MAX_NAMED).map(nameOf),
    ...(neural.length > MAX_NAMED ? [`${neural.length - MAX_NAMED} more of the owner’s`] : []),
    ...(flite?.voices ?? []),
    ...(espeak
      ? [`${ESPEAK_PREFIX}<language> for ${espeak.voices.size} languages, such as ${ESPEAK_PREFIX}en-us`]
      : []),
  ];
  throw new RenderError(
    'processing_failed',
    `There is no voice ${JSON.stringify(id.slice(0, 60))} (voice_id). There are ${known.join(', ')}.`,
  );
}

/** Returns a voice as messages name it. */
function nameOf({ name, language, speakers }: NeuralVoice): string {
  const [some] = speakers.keys();
  const more = speakers.size > 1 ? `; ${name}/<speaker> for ${speakers.size} speakers, such as ${some}` : '';
  return `${name} (${language}${more})`;
}

function asVoice({ name, espeak, sounding: known }: NeuralVoice, speaker?: string): Voice {
  if (speaker === undefined) return { program: 'model', name, espeak, sounding: known };
  return { program: 'model', name, speaker, espeak };
}

/** Returns the first model that speaks a language and, where that is asked for, sounds like a woman or a man. */
function modelOf(
  { neural = [] }: SpeechTools,
  language: string,
  like: Sounding | undefined,
): Voice | undefined {
  const wanted = language.toLowerCase();
  const model = neural.find(
    (one) =>
      (one.language === wanted ||
        one.espeak.toLowerCase() === wanted ||
        OTHER_NAMES[one.language] === wanted) &&
      (like === undefined || one.sounding === like),
  );
  return model && asVoice(model);
}

/**
 * Returns the voice of a language: a model, because it sounds most natural, then flite in English; espeak-ng speaks
 * its accents and the other languages.
 */
function voiceOf(tools: SpeechTools, language: string, like: Sounding | undefined): Voice {
  const { flite, espeak } = tools;
  const model = modelOf(tools, language, like);
  if (model) return model;
  const voices = flite?.voices ?? [];
  const standard = voices.find((name) => !like || FLITE_SOUNDS[name] === like) ?? voices[0];
  const plainEnglish = language === 'en-us' || !espeak?.voices.has(language);
  if (standard !== undefined && plainEnglish) return { program: 'flite', name: standard };
  return sounding(espeak?.voices.has(language) ? language : 'en-us', like);
}

/** Returns espeak-ng's names of the languages that can be spoken here, by their tags in lower case. */
function languagesOf({ flite, espeak }: SpeechTools): Map<string, string> {
  const names = new Map([...(espeak?.voices ?? [])].map((name) => [name.toLowerCase(), name]));
  if (flite) names.set('en-us', 'en-us');
  const others = Object.entries(OTHER_NAMES).flatMap(([tag, other]): [string, string][] => {
    const name = names.get(other);
    return name === undefined ? [] : [[tag, name]];
  });
  return new Map([...names, ...others]);
}

/** Returns the tags of all languages that are understood here. */
export const spokenLanguages = (tools: SpeechTools): string[] => [...languagesOf(tools).keys()].sort();

/** Returns the name of a language that can be spoken here, or of the wider one that it belongs to. */
function languageNamed(tools: SpeechTools, hint: string): string | undefined {
  const languages = languagesOf(tools);
  const tag = languageFor(languages, hint);
  return tag === undefined ? undefined : languages.get(tag);
}
