import { FRAME_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import { GLIDE_AT, GLIDES, VISEMES } from '@semblance/engine-builtin/internal/mouth/visemes';
import { BILABIALS, type Phone, type Sound, VOWELS } from '@semblance/speech/sounds';

export type SoundClass = 'bilabial' | 'open vowel' | 'vowel' | 'consonant' | 'silence';

const OPEN_VOWELS: ReadonlySet<Sound> = new Set(['aa', 'ae', 'ao', 'aw', 'ay']);

export function soundClass(sound: Sound | undefined): SoundClass {
  if (sound === undefined) return 'silence';
  if (BILABIALS.has(sound)) return 'bilabial';
  if (OPEN_VOWELS.has(sound)) return 'open vowel';
  return VOWELS.has(sound) ? 'vowel' : 'consonant';
}

/** Targets per frame: openness, spread, rounding, closure. */
export interface Targets {
  readonly count: number;
  /** Four values per frame. */
  readonly data: Float32Array;
}

/** Half width of the glide between two sounds, in seconds; lips move at most at about 20 cm/s. */
const GLIDE = 0.045;
/** Time before and after a bilabial during which the lips close and open, in seconds. */
const APPROACH = 0.04;

/**
 * Returns the movement of the mouth during a sequence of sounds. Each sound contributes its mouth shape, weighted
 * by a bell around each moment. A bilabial closes the mouth whatever its neighbours are.
 */
export function mouthTargets(phones: readonly Phone[], seconds: number): Targets {
  const count = Math.ceil(seconds * FRAME_RATE);
  const raw = new Float32Array(count * 3);
  for (const { sound, start, end } of phones) {
    if (sound === undefined) continue;
    const glide = GLIDES[sound] ?? sound;
    const first = Math.max(0, Math.round(start * FRAME_RATE));
    const last = Math.min(count, Math.round(end * FRAME_RATE));
    for (let i = first; i < last; i++) {
      const late = i - first > GLIDE_AT * (last - first);
      const { open, spread, round } = VISEMES[late ? glide : sound];
      raw.set([open, spread, round], i * 3);
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
  for (const { sound, start, end } of phones) {
    if (soundClass(sound) !== 'bilabial') continue;
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
