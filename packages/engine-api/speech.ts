/** What the voices of an engine sound like, as callers ask for it. */
export const GENDERS = ['female', 'male'] as const;
export type Gender = (typeof GENDERS)[number];

/** A voice that an engine speaks with. */
export interface AnnouncedVoice {
  /** Its `voice_id`. */
  readonly id: string;
  /** BCP 47 tag in lower case. */
  readonly language: string;
  /** Absent: it is not known. */
  readonly gender?: Gender;
  /** Name of the list of endings that its id may have, each a voice of its own. */
  readonly variants?: string;
}

/** Endings of ids that several voices share, such as `+f2`. */
export interface VariantList {
  readonly name: string;
  readonly endings: readonly string[];
}

/** Voices and languages that an engine announces for Avatar. Without it nothing is known of its voices. */
export interface Speech {
  /** In the order in which they are named to people. */
  readonly voices: readonly AnnouncedVoice[];
  readonly variants?: readonly VariantList[];
  /** Tags of all languages that it understands in lower case, also of those that it speaks as another. */
  readonly languages: readonly string[];
}

const MAX_VOICES = 2_048;
const MAX_LISTS = 256;
const MAX_ENDINGS = 1_024;
const MAX_VOICE_ID = 128;
const TAG = /^[a-z]{2,8}(-[a-z0-9]{1,8})*$/;

/** Returns whether a text has the form of a language tag in lower case. */
export const isLanguageTag = (text: string): boolean => TAG.test(text);

/** Returns what is wrong with announced voices, in one sentence; undefined when nothing is. */
export function speechFault({ voices, variants = [], languages }: Speech): string | undefined {
  if (voices.length === 0 || voices.length > MAX_VOICES) return `there are 1 to ${MAX_VOICES} voices`;
  if (languages.length === 0 || languages.length > MAX_VOICES)
    return `there are 1 to ${MAX_VOICES} languages`;
  if (variants.length > MAX_LISTS) return `there are at most ${MAX_LISTS} lists of variants`;
  const isText = (text: string) => text !== '' && text.length <= MAX_VOICE_ID && text.isWellFormed();
  const lists = new Set(variants.map(({ name }) => name));
  if (lists.size < variants.length || new Set(voices.map(({ id }) => id)).size < voices.length)
    return 'a voice or a list of variants is there twice';
  for (const { name, endings } of variants)
    if (!isText(name) || endings.length > MAX_ENDINGS || !endings.every(isText))
      return `the variants ${JSON.stringify(name.slice(0, 60))} are at most ${MAX_ENDINGS} endings of 1 to ${MAX_VOICE_ID} characters`;
  for (const { id, language, gender, variants: list } of voices)
    if (
      !isText(id) ||
      !TAG.test(language) ||
      (gender !== undefined && !GENDERS.includes(gender)) ||
      (list !== undefined && !lists.has(list))
    )
      return `the voice ${JSON.stringify(id.slice(0, 60))} has an id of 1 to ${MAX_VOICE_ID} characters, a language tag in lower case, the gender female, male or none, and variants that are listed`;
  const odd = languages.find((tag) => !TAG.test(tag));
  return odd === undefined
    ? undefined
    : `${JSON.stringify(odd.slice(0, 60))} is no language tag in lower case`;
}

/** Returns the language that a tag asks for: itself, or the widest part of it that is there (RFC 4647, lookup). */
export function languageFor(languages: Pick<ReadonlySet<string>, 'has'>, asked: string): string | undefined {
  const tag = asked.trim().toLowerCase().replaceAll('_', '-');
  if (!TAG.test(tag)) return undefined;
  // Scripts are left out: whoever writes `sr-Latn` is spoken to in Serbian.
  const parts = tag.split('-').filter((part, i) => i === 0 || part.length !== 4);
  for (let count = parts.length; count > 0; count--) {
    const wider = parts.slice(0, count).join('-');
    if (languages.has(wider)) return wider;
  }
  return undefined;
}

/** Returns whether a `voice_id` is one of the voices or their variants. */
export function hasVoice({ voices, variants = [] }: Speech, id: string): boolean {
  return voices.some((voice) => {
    if (voice.id === id) return true;
    if (voice.variants === undefined || !id.startsWith(voice.id)) return false;
    const list = variants.find(({ name }) => name === voice.variants);
    return list?.endings.includes(id.slice(voice.id.length)) ?? false;
  });
}

/** Returns all voices and languages that any of them has; of a voice that several have, what the first says. */
export function joined(all: readonly Speech[]): Speech {
  const voices = new Map<string, AnnouncedVoice>();
  const endings = new Map<string, Set<string>>();
  const languages = new Set<string>();
  for (const speech of all) {
    for (const voice of speech.voices) if (!voices.has(voice.id)) voices.set(voice.id, voice);
    for (const { name, endings: own } of speech.variants ?? [])
      for (const ending of own) endings.set(name, (endings.get(name) ?? new Set()).add(ending));
    for (const tag of speech.languages) languages.add(tag);
  }
  return {
    voices: [...voices.values()],
    variants: [...endings].map(([name, own]) => ({ name, endings: [...own] })),
    languages: [...languages],
  };
}
