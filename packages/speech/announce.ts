import {
  type AnnouncedVoice,
  type Gender,
  isLanguageTag,
  type Speech,
  speechFault,
} from '@semblance/engine-api/speech';
import type { Sounding, SpeechTools } from './speech-tools.ts';
import { ESPEAK_VARIANTS, soundsLike, spokenLanguages, voiceId } from './voices.ts';

const GENDER: Readonly<Record<Sounding, Gender>> = { woman: 'female', man: 'male' };
/** Name of the list of espeak-ng's variants. */
const ESPEAK = 'espeak-ng';

/** Returns what a caller asks for as the sounding of a voice. */
export function soundingOf(gender: string | undefined): Sounding | undefined {
  return gender === 'female' ? 'woman' : gender === 'male' ? 'man' : undefined;
}

/**
 * Returns the voices and languages of the synthesisers, as an engine announces them: first the owner's, then flite's, then
 * espeak-ng's.
 * @returns undefined when there are more than can be announced, so that none is refused
 */
export function announcedSpeech(tools: SpeechTools): Speech | undefined {
  const { flite, espeak, neural = [] } = tools;
  const own = neural.map(({ name, language, sounding, speakers }): AnnouncedVoice => {
    return {
      id: name,
      language: tagOf(language),
      ...gender(sounding),
      ...(speakers.size > 0 && { variants: name }),
    };
  });
  const english = (flite?.voices ?? []).map((name): AnnouncedVoice => {
    const language = name === 'awb' ? 'en-gb-scotland' : 'en-us';
    return { id: name, language, ...gender(soundsLike({ program: 'flite', name })) };
  });
  const many = [...(espeak?.voices ?? [])].sort().map((name): AnnouncedVoice => {
    const id = voiceId({ program: 'espeak-ng', name });
    return { id, language: tagOf(name), gender: 'male', variants: ESPEAK };
  });
  const speech: Speech = {
    voices: [...own, ...english, ...many],
    variants: [
      ...neural
        .filter(({ speakers }) => speakers.size > 0)
        .map(({ name, speakers }) => ({ name, endings: [...speakers.keys()].map((one) => `/${one}`) })),
      ...(many.length > 0 ? [{ name: ESPEAK, endings: ESPEAK_VARIANTS }] : []),
    ],
    languages: spokenLanguages(tools).filter(isLanguageTag),
  };
  const fault = speechFault(speech);
  if (fault === undefined) return speech;
  console.warn(`voices are not announced, so none is refused before a render: ${fault}`);
  return undefined;
}

/** Returns the tag of a language; that of an undetermined one for a name that is no tag. */
function tagOf(name: string): string {
  const tag = name.toLowerCase();
  return isLanguageTag(tag) ? tag : 'und';
}

const gender = (sounding: Sounding | undefined) => (sounding ? { gender: GENDER[sounding] } : {});
