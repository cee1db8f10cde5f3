/**
 * @module-tag ffmpeg
 * @module-tag speech
 */

import { loadVoices } from '@semblance/common/voices/load-voices';
import type { Voice } from '@semblance/common/voices/voice';
import { resample } from '@semblance/speech/resample';
import { levelDb } from '@semblance/testkit/voice/analysis';
import { converted, delayed } from '@semblance/testkit/voice/convert';
import { joined, noise, RATE, speech, VOWELS, vowel } from '@semblance/testkit/voice/sounds';
import { beforeAll, describe, expect, it } from 'vitest';
import { createVoiceConverter } from './converter.ts';
import { CEILING } from './limiter.ts';

const voices = await loadVoices();
const named = (id: string): Voice => {
  const voice = voices.get(id);
  if (!voice) throw new Error(`no voice ${id}`);
  return voice;
};
/** A voice that changes only voiced sound. */
const plain: Voice = { ...named('clear-soprano'), timbre: [] };
let sentence: Int16Array;
beforeAll(async () => {
  sentence = await speech('flite rms', 'She had five lazy zebras in her dark suit.');
});

describe('stream', () => {
  it('goes through sample for sample without a voice', () => {
    const converter = createVoiceConverter({ sampleRate: RATE });
    expect(converter.latencySamples).toBe(0);
    for (const chunk of [sentence, noise(1, 0.9), new Int16Array(0), Int16Array.of(-32_768, 32_767)]) {
      const out = converter.push(chunk);
      expect(Buffer.compare(Buffer.from(out.buffer), Buffer.from(chunk.slice().buffer))).toBe(0);
      expect(out.buffer).not.toBe(chunk.buffer);
    }
    expect(converter.flush()).toHaveLength(0);
  });

  it('does not depend on how the sound is cut', () => {
    const voice = named('clear-soprano');
    const whole = delayed(sentence, voice, RATE, sentence.length);
    for (const cut of [960, 1, 777, 4_801]) {
      const cutUp = delayed(sentence, voice, RATE, cut);
      expect(Buffer.compare(Buffer.from(cutUp.buffer), Buffer.from(whole.buffer)), `cut by ${cut}`).toBe(0);
    }
  });

  it('gives as many samples as it takes, the rest at the end, and can begin again', () => {
    const converter = createVoiceConverter({ sampleRate: RATE, voice: plain });
    const once = (): Int16Array => {
      const parts: Int16Array[] = [];
      for (const count of [0, 1, 959, 960, 5_000, 48_000]) {
        const part = converter.push(sentence.subarray(0, count));
        expect(part).toHaveLength(count);
        parts.push(part);
      }
      const rest = converter.flush();
      expect(rest).toHaveLength(converter.latencySamples);
      return joined([...parts, rest]);
    };
    expect(once()).toEqual(once());
  });

  it('comes 26.5 ms later, exactly, where there is no voice', () => {
    const sound = noise(1, 0.1);
    const { latencySamples } = createVoiceConverter({ sampleRate: RATE, voice: plain });
    expect(latencySamples).toBe(0.0265 * RATE);
    const out = delayed(sound, plain, RATE, 960);
    expect(out.subarray(0, latencySamples).every((x) => x === 0)).toBe(true);
    expect(out.subarray(latencySamples)).toEqual(sound);
  });

  it('lies under its input where there is a voice, within 5 ms', () => {
    const envelope = (sound: Int16Array): number[] =>
      Array.from({ length: Math.floor(sound.length / 48) }, (_, i) => {
        const level = levelDb(sound.subarray(Math.max(0, 48 * i - 480), 48 * i + 480));
        return Math.max(-50, level);
      });
    for (const id of ['bass-narrator', 'small-character']) {
      const [from, to] = [envelope(sentence), envelope(converted(sentence, named(id)))];
      const misfit = (lag: number): number => {
        let sum = 0;
        for (let i = 40; i < from.length - 40; i++)
          sum += Math.abs((to[i + lag] as number) - (from[i] as number));
        return sum;
      };
      const lags = Array.from({ length: 61 }, (_, i) => i - 30);
      const lag = lags.reduce((a, b) => (misfit(b) < misfit(a) ? b : a));
      expect(Math.abs(lag), id).toBeLessThanOrEqual(5);
    }
  });

  it('takes sound of many rates and refuses what is no rate', () => {
    for (const sampleRate of [8_000, 16_000, 22_050, 44_100, 96_000]) {
      const sound = resample(vowel({ hz: 110, formants: VOWELS.uh, seconds: 0.5 }), RATE, sampleRate);
      const out = converted(sound, named('calm-alto'), sampleRate, 333);
      expect(out).toHaveLength(sound.length);
      const [level, before] = [levelDb(out), levelDb(sound)];
      expect(Math.abs(level - before), `${sampleRate}`).toBeLessThan(1.5);
    }
    for (const sampleRate of [0, 7_999, 96_001, 16_000.5, Number.NaN]) {
      expect(() => createVoiceConverter({ sampleRate, voice: plain })).toThrow(RangeError);
    }
  });
});

describe('limits', () => {
  it('is silent in silence, and after speech', () => {
    for (const voice of voices.values()) {
      const out = converted(joined([new Int16Array(RATE), sentence, new Int16Array(RATE)]), voice);
      expect(out.subarray(0, RATE).every((x) => x === 0)).toBe(true);
      expect(out.subarray(out.length - RATE / 2).every((x) => x === 0)).toBe(true);
    }
  });

  it('turns down what is too loud, and never folds over or clips', () => {
    const loud: Voice = { ...plain, timbre: [{ hz: 1_000, db: 18 }] };
    const gain = 10 ** (18 / 20);
    const sound = noise(1, 0.3);
    const out = converted(sound, loud);
    const gains: number[] = [];
    for (const [i, value] of sound.entries()) {
      const made = out[i] as number;
      if (Math.sign(made) !== Math.sign(value)) throw new Error(`${value} became ${made}`);
      if (Math.abs(value) > 1_000) gains.push(made / value);
    }
    expect(Math.max(...out.map(Math.abs))).toBeLessThanOrEqual(CEILING);
    expect(Math.max(...gains)).toBeLessThan(gain);
    // A gain that varies little does not distort: clipping would turn loud samples down by up to 20 dB more.
    const later = gains.slice(gains.length / 4);
    expect(20 * Math.log10(Math.max(...later) / Math.min(...later))).toBeLessThan(4);
    const quiet = noise(1, 0.02);
    for (const [i, made] of converted(quiet, loud).entries())
      expect(Math.abs(made - gain * (quiet[i] as number))).toBeLessThanOrEqual(0.5);
    const clipped = sentence.map((x) => Math.max(-32_768, Math.min(32_767, 12 * x)));
    const peak = sentence.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const full = sentence.map((x) => (x * 32_767) / peak);
    for (const voice of voices.values()) {
      expect(Math.abs(levelDb(converted(full, voice)) - levelDb(full)), voice.id).toBeLessThan(1);
      // The ceiling takes 2 dB of what is clipped already, and the voice's own peaks take the rest.
      const lost = levelDb(clipped) - levelDb(converted(clipped, voice));
      expect(lost, voice.id).toBeGreaterThan(0);
      expect(lost, voice.id).toBeLessThan(6.5);
    }
  });

  it('stays 2 dB below full scale with every voice, whatever comes in', () => {
    const clipped = sentence.map((x) => Math.max(-32_768, Math.min(32_767, 12 * x)));
    const peak = sentence.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const full = sentence.map((x) => Math.round((x * 32_767) / peak));
    const low = vowel({ hz: 300, formants: VOWELS.a, seconds: 1 }).map((x) => Math.round(x * 2.4));
    for (const voice of voices.values()) {
      for (const [name, sound] of Object.entries({ clipped, full, low, noise: noise(1, 1) })) {
        const out = converted(sound, voice);
        const loudest = out.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
        expect(loudest, `${name}, ${voice.id}`).toBeLessThanOrEqual(CEILING);
        // Without a limiter, each of these would reach full scale with some voice.
        expect(loudest, `${name}, ${voice.id}`).toBeGreaterThan(CEILING / 2);
      }
    }
  });

  it('withstands extremes: steps, the steepest tones, single samples', () => {
    const square = Int16Array.from({ length: RATE }, (_, i) => (i % 400 < 200 ? 32_767 : -32_768));
    const nyquist = Int16Array.from({ length: RATE / 2 }, (_, i) => (i % 2 ? 32_767 : -32_768));
    const offset = new Int16Array(RATE / 2).fill(20_000);
    const click = new Int16Array(RATE / 2);
    click[9_000] = 32_767;
    for (const id of ['bass-narrator', 'small-character']) {
      const whole = joined([square, nyquist, offset, click, sentence, sentence]);
      const out = converted(whole, named(id));
      // NaN and infinity become 0; otherwise the speech at the end would be missing.
      const end = out.subarray(out.length - sentence.length);
      expect(Math.abs(levelDb(end) - levelDb(sentence)), id).toBeLessThan(2);
    }
  });

  it('keeps going for ten minutes: nothing is lost, nothing drifts', () => {
    // This rate costs a third of the usual one.
    const rate = 16_000;
    const said = resample(sentence, RATE, rate);
    const mark = noise(0.1, 0.1, 5);
    const turn = joined([said, new Int16Array(rate / 10), mark, new Int16Array(rate / 20)]);
    const turns = Math.ceil((600 * rate) / turn.length);
    const converter = createVoiceConverter({ sampleRate: rate, voice: plain });
    const latency = converter.latencySamples;
    const out = new Int16Array(2 * turn.length);
    const window = rate / 20;
    let reference: number[] = [];
    let [taken, given] = [0, 0];
    for (let k = 0; k < turns; k++) {
      // The last two turns are kept, one after the other.
      out.copyWithin(0, turn.length);
      for (let at = 0; at < turn.length; at += 320) {
        const chunk = turn.subarray(at, at + 320);
        const made = converter.push(chunk);
        out.set(made, turn.length + at);
        taken += chunk.length;
        given += made.length;
      }
      if (k < 2) continue;
      // This is the whole turn before the current one.
      const heard = out.subarray(latency, latency + turn.length);
      const markAt = turn.length - rate / 20 - mark.length;
      if (Buffer.compare(bytes(heard.subarray(markAt, markAt + mark.length)), bytes(mark)) !== 0) {
        throw new Error(`the noise of turn ${k} is not where it was`);
      }
      const levels: number[] = [];
      for (let at = 0; at + window <= said.length; at += window)
        levels.push(levelDb(heard.subarray(at, at + window)));
      if (k === 2) reference = levels;
      for (const [i, level] of levels.entries()) {
        const own = levelDb(turn.subarray(i * window, (i + 1) * window));
        // Audible parts of the sentence are as loud as the first time. A tone whose only harmonic lies below the
        // new pitch (the voice of a closed mouth, at "five") loses 8 dB.
        if (own > -40) expect(Math.abs(level - (reference[i] as number)), `turn ${k}, ${i}`).toBeLessThan(4);
        if (own > -40) expect(level - own, `turn ${k}, ${i}`).toBeGreaterThan(-12);
      }
    }
    expect(given).toBe(taken);
    expect(taken).toBeGreaterThanOrEqual(600 * rate);
  });
});

function bytes(samples: Int16Array): Uint8Array {
  return new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
}
