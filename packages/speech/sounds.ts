/** Speech sounds by their ARPABET names, as flite uses them; sounds of other languages map to the nearest. */
export const SOUNDS = [
  ...[
    'aa',
    'ae',
    'ah',
    'ao',
    'aw',
    'ax',
    'axr',
    'ay',
    'eh',
    'er',
    'ey',
    'ih',
    'ix',
    'iy',
    'ow',
    'oy',
    'uh',
    'uw',
    'yu',
  ],
  ...['p', 'b', 'm', 'f', 'v', 'th', 'dh', 't', 'd', 'n', 's', 'z', 'l', 'sh', 'zh', 'ch', 'jh', 'r', 'w'],
  ...['k', 'g', 'ng', 'y', 'hh'],
] as const;
export type Sound = (typeof SOUNDS)[number];

const KNOWN: ReadonlySet<string> = new Set(SOUNDS);
export const BILABIALS: ReadonlySet<Sound> = new Set(['p', 'b', 'm']);
export const VOWELS: ReadonlySet<Sound> = new Set(SOUNDS.slice(0, 19));

/** One sound of speech, or a silence, with its times in seconds. */
export interface Phone {
  /** Undefined for silence. */
  readonly sound: Sound | undefined;
  readonly start: number;
  readonly end: number;
  /** Loudness of a vowel relative to the whole speech. */
  readonly loudness?: number;
}

/** IPA symbols, grouped by the sound that looks nearest on a mouth. */
const IPA: Readonly<Record<string, Sound>> = Object.fromEntries(
  Object.entries({
    aa: 'aäɑɶ',
    ah: 'ɐʌɤ',
    ae: 'æ',
    ao: 'ɒɔœ',
    ow: 'oøɵ',
    uw: 'uʉyʏ',
    uh: 'ʊ',
    ix: 'ɨᵻ',
    iy: 'i',
    ih: 'ɪɯ',
    ey: 'e',
    eh: 'ɛ',
    ax: 'ə',
    axr: 'ɚ',
    er: 'ɜɝɞ',
    p: 'pɸ',
    b: 'bβʙɓ',
    m: 'm',
    f: 'fɱ',
    v: 'vʋⱱ',
    th: 'θ',
    dh: 'ð',
    t: 'tʈ',
    d: 'dɖɗɾrɽ',
    n: 'nɳɲ',
    l: 'lɫɭɬɮʎʟɺ',
    s: 's',
    z: 'z',
    sh: 'ʃʂɕ',
    zh: 'ʒʐʑ',
    ch: 'ʧ',
    jh: 'ʤ',
    k: 'kcqxχ',
    g: 'gɡɟɣɢʁʀɠʛɰ',
    ng: 'ŋɴ',
    y: 'jʝç',
    hh: 'hɦħʕʔʜʢ',
    r: 'ɹɻ',
    w: 'wʍɥ',
  } satisfies Partial<Record<Sound, string>>).flatMap(([sound, symbols]) =>
    [...symbols].map((one) => [one, sound as Sound]),
  ),
);
const PAIRS: readonly (readonly [RegExp, Sound])[] = [
  [/^[aɑ][ːˑ]?[iɪj]/, 'ay'],
  [/^[aɑ][ːˑ]?[uʊw]/, 'aw'],
  [/^[oɔ][ːˑ]?[iɪʏy]/, 'oy'],
  [/^[oə]ʊ/, 'ow'],
  [/^t[ʃʂɕ]/, 'ch'],
  [/^d[ʒʐʑ]/, 'jh'],
  [/^j[uʊ]/, 'yu'],
];

/** Returns whether two IPA symbols in a row are one sound: a diphthong, or a stop and its friction. */
export function isOneSound(first: string, second: string): boolean {
  return /^[eaɑɔo][ɪi]$|^[oəaɑ]ʊ$/.test(first + second) || /^t[ʃʂɕ]$|^d[ʒʐʑ]$/.test(first + second);
}

/**
 * @param name flite's name
 * @returns undefined for silence
 */
export function soundOfArpabet(name: string): Sound | undefined {
  return KNOWN.has(name) ? (name as Sound) : undefined;
}

/**
 * @param name espeak-ng's name
 * @returns undefined for silence
 */
export function soundOfIpa(name: string): Sound | undefined {
  // A c with a cedilla is a sound of its own and not a c with a mark.
  const plain = name
    .normalize('NFD')
    .replace(/c\u0327/g, '\u00E7')
    .replace(/[\u0300-\u036F]/g, '');
  for (const [pattern, sound] of PAIRS) if (pattern.test(plain)) return sound;
  for (const symbol of plain) {
    const sound = IPA[symbol];
    if (sound) return sound;
  }
  return undefined;
}
