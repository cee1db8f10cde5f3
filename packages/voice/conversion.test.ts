/**
 * @module-tag ffmpeg
 * @module-tag speech
 * @module-tag recordings
 */

import { loadVoices } from '@semblance/common/voices/load-voices';
import type { Voice } from '@semblance/common/voices/voice';
import {
  formantFactor,
  levelDb,
  likenessOf,
  median,
  pitchOf,
  spectrum,
} from '@semblance/testkit/voice/analysis';
import { converted } from '@semblance/testkit/voice/convert';
import {
  CREAKY,
  mixed,
  music,
  noise,
  people,
  RATE,
  SPEAKERS,
  speech,
  VOWELS,
  vowel,
} from '@semblance/testkit/voice/sounds';
import { beforeAll, describe, expect, it } from 'vitest';

const voices = await loadVoices();
const spoken = new Map<string, Int16Array>();
let recordings: ReadonlyMap<string, Int16Array>;
beforeAll(async () => {
  for (const speaker of SPEAKERS) spoken.set(speaker, await speech(speaker));
  recordings = await people();
});

const middle = ({ pitchHz }: Voice): number => Math.sqrt(pitchHz.low * pitchHz.high);
const pitches = (sound: Int16Array): number[] => pitchOf(sound, RATE).filter((hz) => hz > 0);
const sound = (name: string): Int16Array => {
  const found = spoken.get(name) ?? recordings.get(name);
  if (!found) throw new Error(`no sound ${name}`);
  return found;
};
const voiceNamed = (id: string): Voice => {
  const found = voices.get(id);
  if (!found) throw new Error(`no voice ${id}`);
  return found;
};

describe('vowels of known pitch and formants', () => {
  it.each([...voices.values()])('$id: pitch within 2 %, formants within 3 %', (voice) => {
    for (const [hz, formants] of [
      [100, VOWELS.ae],
      [190, VOWELS.uh],
    ] as const) {
      const steady = converted(vowel({ hz, formants, seconds: 1 }), voice);
      const found = pitches(steady.subarray(RATE / 4));
      expect(found.length).toBeGreaterThan(60);
      for (const share of [0.05, 0.5, 0.95]) {
        const pitch = [...found].sort((a, b) => a - b)[Math.floor(share * found.length)] as number;
        expect(pitch / middle(voice)).toBeGreaterThan(0.98);
        expect(pitch / middle(voice)).toBeLessThan(1.02);
      }
      // A gliding pitch also shows formants between harmonics.
      const gliding = vowel({ hz, formants, seconds: 2, glide: 0.12 });
      const factor = formantFactor(spectrum(gliding, 150), spectrum(converted(gliding, voice), 150));
      expect(factor / voice.formantShift).toBeGreaterThan(0.97);
      expect(factor / voice.formantShift).toBeLessThan(1.03);
    }
  });

  it('is a clean tone: what does not repeat lies 30 dB below', () => {
    const voice = voiceNamed('calm-alto');
    const out = converted(vowel({ hz: 100, formants: VOWELS.a, seconds: 1 }), voice).subarray(RATE / 2);
    const period = RATE / middle(voice);
    // The comparison is over several periods that are nearly a whole number of samples.
    const counts = Array.from({ length: 12 }, (_, i) => i + 1);
    const count = counts.reduce((a, b) =>
      Math.abs(b * period - Math.round(b * period)) < Math.abs(a * period - Math.round(a * period)) ? b : a,
    );
    const lag = Math.round(count * period);
    const rest = Int16Array.from(
      { length: out.length - lag },
      (_, i) => (out[i + lag] as number) - (out[i] as number),
    );
    expect(levelDb(out) - levelDb(rest)).toBeGreaterThan(30);
  });
});

describe('speech', () => {
  it.each([...SPEAKERS, 'studio', 'telephone'])(
    'of %s arrives in the range of every voice, as loud as it was',
    (name) => {
      const from = sound(name);
      for (const voice of voices.values()) {
        const out = converted(from, voice);
        const pitch = median(pitches(out)) / middle(voice);
        expect(pitch, voice.id).toBeGreaterThan(0.9);
        expect(pitch, voice.id).toBeLessThan(1.1);
        expect(Math.abs(levelDb(out) - levelDb(from)), voice.id).toBeLessThan(0.5);
      }
    },
  );

  it('is converted however quiet, and stays as quiet', () => {
    const voice = voiceNamed('clear-soprano');
    const from = sound('flite rms').map((x) => Math.round(x / 100));
    expect(levelDb(from)).toBeLessThan(-55);
    const out = converted(from, voice);
    const pitch = median(pitches(out)) / middle(voice);
    expect(pitch).toBeGreaterThan(0.9);
    expect(pitch).toBeLessThan(1.1);
    expect(Math.abs(levelDb(out) - levelDb(from))).toBeLessThan(0.5);
  });

  it('begins where the voice is: the first syllable is in its range', () => {
    for (const [name, from] of [...spoken, ...recordings]) {
      for (const voice of voices.values()) {
        const first = pitches(converted(from.subarray(0, 1.5 * RATE), voice)).slice(0, 15);
        expect(median(first), `${name}, ${voice.id}`).toBeGreaterThan(0.8 * voice.pitchHz.low);
        expect(median(first), `${name}, ${voice.id}`).toBeLessThan(1.25 * voice.pitchHz.high);
      }
    }
  });

  it('keeps its intonation', () => {
    const from = sound('studio');
    const before = pitchOf(from, RATE);
    const after = pitchOf(converted(from, voiceNamed('calm-alto')), RATE);
    const both = before.map((_, i) => i).filter((i) => (before[i] as number) > 0 && (after[i] as number) > 0);
    const contour = (of: readonly number[]) => both.map((i) => Math.log(of[i] as number));
    expect(both.length).toBeGreaterThan(60);
    expect(likenessOf(contour(before), contour(after))).toBeGreaterThan(0.85);
  });

  it('keeps what is not voiced: no pitch where there was none', () => {
    for (const name of ['flite slt', 'studio', 'telephone']) {
      const before = pitchOf(sound(name), RATE);
      for (const id of ['bass-narrator', 'clear-soprano']) {
        const after = pitchOf(converted(sound(name), voiceNamed(id)), RATE);
        const quiet = before.map((_, i) => i).filter((i) => before[i] === 0 && i < after.length);
        const arisen = quiet.filter((i) => (after[i] as number) > 0).length / quiet.length;
        expect(arisen, `${name}, ${id}`).toBeLessThan(0.12);
      }
    }
  });

  it('differs from voice to voice', () => {
    const from = sound('flite rms');
    const own = spectrum(from, 200);
    const heard = [...voices.values()].map((voice) => {
      const out = converted(from, voice);
      const formants = formantFactor(own, spectrum(out, 200));
      return { pitch: median(pitches(out)), formants, shift: voice.formantShift };
    });
    for (const [i, a] of heard.entries()) {
      for (const b of heard.slice(i + 1)) {
        expect(Math.abs(Math.log2(a.pitch / b.pitch))).toBeGreaterThan(0.2);
      }
    }
    const [lowest, highest] = [
      heard.reduce((a, b) => (b.pitch < a.pitch ? b : a)),
      heard.reduce((a, b) => (b.pitch > a.pitch ? b : a)),
    ];
    // The spectrum of a short sentence shows formants less exactly than that of a vowel.
    const factor = highest.formants / lowest.formants / (highest.shift / lowest.shift);
    expect(factor).toBeGreaterThan(0.9);
    expect(factor).toBeLessThan(1.1);
    expect(highest.formants / lowest.formants).toBeGreaterThan(1.2);
  });
});

describe('other sounds', () => {
  it('gives noise no pitch', () => {
    for (const voice of voices.values()) {
      for (const level of [0.001, 0.1]) expect(pitches(converted(noise(1.5, level), voice))).toEqual([]);
    }
  });

  it('leaves noise alone where the voice has no timbre of its own', () => {
    const hiss = noise(1.5, 0.1);
    expect(converted(hiss, { ...voiceNamed('bass-narrator'), timbre: [] })).toEqual(hiss);
  });

  it('finds the voice in noise', () => {
    const voice = voiceNamed('clear-soprano');
    const out = converted(mixed(sound('flite rms'), noise(8, 0.03)), voice);
    const pitch = median(pitches(out)) / middle(voice);
    expect(pitch).toBeGreaterThan(0.92);
    expect(pitch).toBeLessThan(1.08);
  });

  it('keeps the level of two talkers, of a creaking voice and of music', async () => {
    const creak = await speech(CREAKY);
    for (const [name, from] of [
      ['two talkers', mixed(sound('flite rms'), sound('flite slt'))],
      ['creak', creak],
      ['music', music(5)],
    ] as const) {
      for (const id of ['bass-narrator', 'small-character']) {
        const out = converted(from, voiceNamed(id));
        expect(Math.abs(levelDb(out) - levelDb(from)), `${name}, ${id}`).toBeLessThan(2);
      }
    }
  });
});
