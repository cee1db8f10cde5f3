import { describe, expect, it } from 'vitest';
import { soundOfArpabet, soundOfIpa } from './sounds.ts';

describe('a sound of speech', () => {
  it.each([
    // Marks, length and stress do not matter; the first symbol of a name decides.
    ['ɑ̃', 'aa'],
    ['uː', 'uw'],
    ['ɪə', 'ih'],
    ['õ', 'ow'],
    // These sounds have two symbols.
    ['aɪ', 'ay'],
    ['əʊ', 'ow'],
    ['oʊ', 'ow'],
    ['tʃ', 'ch'],
    ['juː', 'yu'],
    // A c with a cedilla is not a c.
    ['ç', 'y'],
    ['c', 'k'],
    // Rounded and unrounded lips are kept apart, as in the language.
    ['œ', 'ao'],
    ['y', 'uw'],
    ['ɯ', 'ih'],
    ['_:', undefined],
    ['', undefined],
  ])('named %j in the IPA is the sound that looks like it', (name, sound) => {
    expect(soundOfIpa(name)).toBe(sound);
  });

  it('is known by its ARPABET name, silence by any other', () => {
    expect(soundOfArpabet('aa')).toBe('aa');
    expect(soundOfArpabet('pau')).toBeUndefined();
  });
});
