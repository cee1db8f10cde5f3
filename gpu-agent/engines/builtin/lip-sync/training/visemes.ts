import { BILABIALS, type Phone, type Sound, VOWELS } from '../../speech/sounds.ts';
import { FRAME_RATE } from '../audio/log-mel.ts';
import { OUTPUTS } from '../audio/mouth-model.ts';

/** What the mouth does for a sound: distance between the lips (IOD), spread and rounding in [0, 1]. */
interface Viseme {
  readonly open: number;
  readonly spread: number;
  readonly round: number;
}

export type SoundClass = 'bilabial' | 'open vowel' | 'vowel' | 'consonant' | 'silence';

const v = (open: number, spread: number, round: number): Viseme => ({ open, spread, round });

/** Apertures of read speech (Harvard X-ray microbeam and video studies): 8 to 15 mm in vowels, 64 mm between the pupils. */
const VISEMES: Readonly<Record<Sound, Viseme>> = {
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
  yu: v(0.07, 0, 0.9),
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

/** Where vowels that glide begin and end. */
const DIPHTHONGS: Readonly<Partial<Record<Sound, readonly [Sound, Sound]>>> = {
  ay: ['aa', 'ih'],
  aw: ['aa', 'uh'],
  ey: ['eh', 'iy'],
  ow: ['ow', 'uh'],
  oy: ['ao', 'ih'],
  yu: ['iy', 'uw'],
};
const OPEN_VOWELS: ReadonlySet<Sound> = new Set(['aa', 'ae', 'ao', 'aw', 'ay']);

export function soundClass(sound: Sound | undefined): SoundClass {
  if (sound === undefined) return 'silence';
  if (BILABIALS.has(sound)) return 'bilabial';
  if (OPEN_VOWELS.has(sound)) return 'open vowel';
  return VOWELS.has(sound) ? 'vowel' : 'consonant';
}

export const TARGETS = OUTPUTS.length;

/** What the network is to say of each frame: its outputs, in their order. */
export interface Targets {
  readonly count: number;
  /** {@link TARGETS} values a frame. */
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
  const data = new Float32Array(count * TARGETS);
  for (const { sound, start, end } of phones) {
    const diphthong = sound ? DIPHTHONGS[sound] : undefined;
    const first = Math.max(0, Math.round(start * FRAME_RATE));
    const last = Math.min(count, Math.round(end * FRAME_RATE));
    for (let i = first; i < last; i++) {
      const late = i - first > 0.6 * (last - first);
      const at = diphthong ? diphthong[late ? 1 : 0] : sound;
      const viseme = at === undefined ? v(0, 0, 0) : VISEMES[at];
      raw.set([viseme.open, viseme.spread, viseme.round], i * 3);
      if (sound !== undefined) data[i * TARGETS + 4] = 1;
    }
  }
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
      data[i * TARGETS + k] = sum / weight;
    }
  }
  for (const { sound, start, end } of phones) {
    if (soundClass(sound) !== 'bilabial') continue;
    const first = Math.floor((start - APPROACH) * FRAME_RATE);
    const last = Math.ceil((end + APPROACH) * FRAME_RATE);
    for (let i = Math.max(0, first); i < Math.min(count, last); i++) {
      const t = (i + 0.5) / FRAME_RATE;
      const outside = Math.max(0, start - t, t - end);
      const share = Math.min(1, outside / APPROACH);
      data[i * TARGETS] = (data[i * TARGETS] as number) * share;
      if (outside === 0) data[i * TARGETS + 3] = 1;
    }
  }
  return { count, data };
}
