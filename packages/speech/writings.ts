/** Unicode names of the writing systems that voices read. */
export const WRITINGS = [
  ...['Latin', 'Cyrillic', 'Greek', 'Arabic', 'Hebrew', 'Armenian', 'Georgian', 'Ethiopic'],
  ...['Han', 'Hiragana', 'Katakana', 'Bopomofo', 'Hangul', 'Thai', 'Myanmar', 'Sinhala', 'Devanagari'],
  ...['Bengali', 'Gurmukhi', 'Gujarati', 'Oriya', 'Tamil', 'Telugu', 'Kannada', 'Malayalam'],
] as const;
/**
 * Unicode names of writing systems without a voice, for messages: those in use today, and the best known old ones.
 */
const UNVOICED = [
  ...['Khmer', 'Lao', 'Tibetan', 'Mongolian', 'Thaana', 'Syriac', 'Nko', 'Tifinagh', 'Canadian_Aboriginal'],
  ...[
    'Cherokee',
    'Javanese',
    'Balinese',
    'Sundanese',
    'Tai_Le',
    'New_Tai_Lue',
    'Tai_Tham',
    'Tai_Viet',
    'Lepcha',
    'Limbu',
  ],
  ...[
    'Ol_Chiki',
    'Meetei_Mayek',
    'Vai',
    'Yi',
    'Lisu',
    'Adlam',
    'Cham',
    'Buginese',
    'Batak',
    'Rejang',
    'Osage',
  ],
  ...['Hanifi_Rohingya', 'Chakma', 'Saurashtra', 'Syloti_Nagri', 'Kayah_Li', 'Bamum', 'Samaritan', 'Mandaic'],
  ...['Newa', 'Tirhuta', 'Khojki', 'Modi', 'Miao', 'Pahawh_Hmong', 'Mro', 'Wancho', 'Warang_Citi'],
  ...['Runic', 'Ogham', 'Gothic', 'Coptic', 'Glagolitic', 'Deseret', 'Shavian', 'Old_Italic', 'Old_Turkic'],
  ...['Phoenician', 'Cuneiform', 'Egyptian_Hieroglyphs', 'Linear_A', 'Linear_B', 'Ugaritic', 'Old_Persian'],
] as const;

/** Pseudo writing system of a sign that has none and that no voice says. */
export const SYMBOL = 'Symbol';

const patternsOf = (names: readonly string[]) =>
  names.map((name) => [name, new RegExp(`\\p{Script=${name}}`, 'gu')] as const);
const VOICED_PATTERNS = patternsOf(WRITINGS);
const PATTERNS = patternsOf([...WRITINGS, ...UNVOICED]);
const OF_NO_WRITING = /[\p{Script=Common}\p{Script=Inherited}]/u;

/** Returns the writing system of most letters, among those with voices. */
export function writingOf(text: string): string | undefined {
  let best: string | undefined;
  let most = 0;
  let japanese = 0;
  for (const [name, pattern] of VOICED_PATTERNS) {
    const count = text.match(pattern)?.length ?? 0;
    if (name === 'Hiragana' || name === 'Katakana') japanese += count;
    if (count > most) [best, most] = [name, count];
  }
  // Japanese mixes three writing systems; its syllables distinguish it from Chinese.
  if (japanese > 0 && (best === 'Han' || best === 'Katakana')) return 'Hiragana';
  return best;
}

/**
 * Returns the writing system of one letter or digit; undefined if several share it. {@link SYMBOL} is returned for
 * a number that no voice says, such as ❶ (½ is made of digits), and `Unknown` for a writing system without a known
 * name.
 */
export function writingOfLetter(letter: string): string | undefined {
  if (OF_NO_WRITING.test(letter)) {
    return /\p{N}/u.test(letter) && !/[0-9]/.test(letter.normalize('NFKC')) ? SYMBOL : undefined;
  }
  return PATTERNS.find(([, pattern]) => letter.search(pattern) >= 0)?.[0] ?? 'Unknown';
}
