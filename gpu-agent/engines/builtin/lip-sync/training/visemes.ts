import { FRAME_RATE } from '../audio/log-mel.ts';

/** A speech sound with times in seconds. */
export interface Phone {
  /** As the synthesiser names it: ARPABET for flite, IPA for espeak-ng, empty for silence. */
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

/** What the mouth does for a sound: distance between the lips (IOD), spread and rounding in [0, 1]. */
interface Viseme {
  readonly open: number;
  readonly spread: number;
  readonly round: number;
}

export type SoundClass = 'bilabial' | 'open vowel' | 'vowel' | 'consonant' | 'silence';

const v = (open: number, spread: number, round: number): Viseme => ({ open, spread, round });

/** Apertures of read speech (Harvard X-ray microbeam and video studies): 8 to 15 mm in vowels, 64 mm between the pupils. */
const ARPABET: Readonly<Record<string, Viseme>> = {
  aa: v(0.24, 0.1, 0),
  ae: v(0.22, 0.4, 0),
  ah: v(0.16, 0.1, 0),
  ao: v(0.2, 0, 0.45),
  aw: v(0.22, 0.1, 0.1),
  ax: v(0.12, 0.1, 0),
  axr: v(0.11, 0, 0.3),
  ay: v(0.22, 0.25, 0),
  eh: v(0.17, 0.4, 0),
  er: v(0.11, 0, 0.35),
  ey: v(0.14, 0.5, 0),
  ih: v(0.12, 0.45, 0),
  ix: v(0.1, 0.4, 0),
  iy: v(0.09, 0.75, 0),
  ow: v(0.15, 0, 0.65),
  oy: v(0.17, 0.1, 0.5),
  uh: v(0.11, 0, 0.5),
  uw: v(0.07, 0, 0.9),
  p: v(0, 0.05, 0),
  b: v(0, 0.05, 0),
  m: v(0, 0.05, 0),
  f: v(0.025, 0.15, 0),
  v: v(0.025, 0.15, 0),
  th: v(0.06, 0.2, 0),
  dh: v(0.06, 0.2, 0),
  t: v(0.06, 0.25, 0),
  d: v(0.06, 0.25, 0),
  n: v(0.07, 0.2, 0),
  l: v(0.09, 0.2, 0),
  s: v(0.045, 0.4, 0),
  z: v(0.045, 0.4, 0),
  sh: v(0.06, 0, 0.5),
  zh: v(0.06, 0, 0.5),
  ch: v(0.06, 0, 0.5),
  jh: v(0.06, 0, 0.5),
  k: v(0.09, 0.15, 0),
  g: v(0.09, 0.15, 0),
  ng: v(0.09, 0.2, 0),
  y: v(0.07, 0.5, 0),
  r: v(0.07, 0, 0.4),
  w: v(0.04, 0, 0.95),
  hh: v(0.12, 0.1, 0),
};

/** Symbols of the IPA by the sound of English that looks nearest on a mouth; the first symbol of a name decides. */
const IPA: Readonly<Record<string, string>> = {
  a: 'aa',
  ä: 'aa',
  ɑ: 'aa',
  ɐ: 'ah',
  ʌ: 'ah',
  æ: 'ae',
  ɒ: 'ao',
  ɔ: 'ao',
  o: 'ow',
  ɤ: 'ah',
  u: 'uw',
  ʊ: 'uh',
  ɯ: 'ih',
  ɨ: 'ix',
  ʉ: 'uw',
  i: 'iy',
  ɪ: 'ih',
  y: 'uw',
  ʏ: 'uh',
  e: 'ey',
  ɛ: 'eh',
  ø: 'ow',
  œ: 'ao',
  ə: 'ax',
  ɚ: 'axr',
  ɜ: 'er',
  ɝ: 'er',
  ᵻ: 'ix',
  ɵ: 'uh',
  p: 'p',
  b: 'b',
  m: 'm',
  f: 'f',
  v: 'v',
  ʋ: 'v',
  ɱ: 'f',
  β: 'v',
  ɸ: 'f',
  θ: 'th',
  ð: 'dh',
  t: 't',
  d: 'd',
  n: 'n',
  ɾ: 'd',
  ʈ: 't',
  ɖ: 'd',
  ɳ: 'n',
  l: 'l',
  ɫ: 'l',
  ɭ: 'l',
  ʎ: 'l',
  ɬ: 'l',
  s: 's',
  z: 'z',
  ʂ: 'sh',
  ʐ: 'zh',
  ʃ: 'sh',
  ʒ: 'zh',
  ɕ: 'sh',
  ʑ: 'zh',
  ç: 'y',
  ʝ: 'y',
  j: 'y',
  ɲ: 'n',
  k: 'k',
  ɡ: 'g',
  g: 'g',
  ŋ: 'ng',
  x: 'k',
  ɣ: 'g',
  q: 'k',
  ʁ: 'g',
  ʀ: 'g',
  χ: 'k',
  h: 'hh',
  ɦ: 'hh',
  ʔ: 'hh',
  r: 'd',
  ɹ: 'r',
  ɻ: 'r',
  w: 'w',
  ɥ: 'w',
};
const DIPHTHONGS: Readonly<Record<string, readonly [string, string]>> = {
  ay: ['aa', 'ih'],
  aw: ['aa', 'uh'],
  ey: ['eh', 'iy'],
  ow: ['ow', 'uh'],
  oy: ['ao', 'ih'],
};
const BILABIALS = new Set(['p', 'b', 'm']);
const OPEN_VOWELS = new Set(['aa', 'ae', 'ao', 'aw', 'ay']);
const VOWELS = new Set('aa ae ah ao aw ax axr ay eh er ey ih ix iy ow oy uh uw'.split(' '));

/** The ARPABET name for a synthesiser's; undefined for silence. */
function plain(name: string): string | undefined {
  const lower = name.toLowerCase();
  if (lower in ARPABET) return lower;
  if (lower === '' || lower === 'pau') return undefined;
  if (/^aɪ|^ai/.test(name)) return 'ay';
  if (/^aʊ|^au/.test(name)) return 'aw';
  if (/^eɪ/.test(name)) return 'ey';
  if (/^[oə]ʊ/.test(name)) return 'ow';
  if (/^ɔɪ|^ɔʏ/.test(name)) return 'oy';
  if (/^tʃ|^dʒ/.test(name)) return 'ch';
  for (const symbol of name) {
    const found = IPA[symbol];
    if (found) return found;
  }
  return undefined;
}

export function soundClass(name: string): SoundClass {
  const sound = plain(name);
  if (sound === undefined) return 'silence';
  if (BILABIALS.has(sound)) return 'bilabial';
  if (OPEN_VOWELS.has(sound)) return 'open vowel';
  return VOWELS.has(sound) ? 'vowel' : 'consonant';
}

/** Targets a frame: openness, spread, rounding, closure. */
export interface Targets {
  readonly count: number;
  /** Four values a frame. */
  readonly data: Float32Array;
}

/** Half width of the glide from one sound to the next, seconds: lips move at most about 20 cm/s. */
const GLIDE = 0.045;
/** A closure is seen this much before and after the sound's own bounds: the lips must come and go. */
const APPROACH = 0.04;

/**
 * The way of the mouth through a row of sounds. Each pulls it to its own shape, weighted by a bell around every moment,
 * except that a bilabial closes it whatever its neighbours want.
 */
export function mouthTargets(phones: readonly Phone[], seconds: number): Targets {
  const count = Math.ceil(seconds * FRAME_RATE);
  const raw = new Float32Array(count * 3);
  for (const { name, start, end } of phones) {
    const sound = plain(name);
    const diphthong = sound ? DIPHTHONGS[sound] : undefined;
    const first = Math.max(0, Math.round(start * FRAME_RATE));
    const last = Math.min(count, Math.round(end * FRAME_RATE));
    for (let i = first; i < last; i++) {
      const late = i - first > 0.6 * (last - first);
      const at = diphthong ? diphthong[late ? 1 : 0] : sound;
      const viseme = at === undefined ? v(0, 0, 0) : (ARPABET[at] as Viseme);
      raw.set([viseme.open, viseme.spread, viseme.round], i * 3);
    }
  }
  const data = new Float32Array(count * 4);
  const reach = Math.round(2 * GLIDE * FRAME_RATE);
  const bell = Array.from({ length: 2 * reach + 1 }, (_, i) => {
    const t = (i - reach) / FRAME_RATE / (GLIDE * 0.8);
    return Math.exp(-0.5 * t * t);
  });
  for (let i = 0; i < count; i++) {
    for (let k = 0; k < 3; k++) {
      let sum = 0;
      let weight = 0;
      for (let j = -reach; j <= reach; j++) {
        if (i + j < 0 || i + j >= count) continue;
        const w = bell[j + reach] as number;
        sum += w * (raw[(i + j) * 3 + k] as number);
        weight += w;
      }
      data[i * 4 + k] = sum / weight;
    }
  }
  for (const { name, start, end } of phones) {
    if (soundClass(name) !== 'bilabial') continue;
    const first = Math.floor((start - APPROACH) * FRAME_RATE);
    const last = Math.ceil((end + APPROACH) * FRAME_RATE);
    for (let i = Math.max(0, first); i < Math.min(count, last); i++) {
      const t = (i + 0.5) / FRAME_RATE;
      const outside = Math.max(0, start - t, t - end);
      const share = Math.min(1, outside / APPROACH);
      data[i * 4] = (data[i * 4] as number) * share;
      if (outside === 0) data[i * 4 + 3] = 1;
    }
  }
  return { count, data };
}
