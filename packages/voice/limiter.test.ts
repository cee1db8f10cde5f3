import { noise, RATE, VOWELS, vowel } from '@semblance/testkit/voice/sounds';
import { describe, expect, it } from 'vitest';
import { CEILING, FULL_SCALE, Limiter, toSample } from './limiter.ts';

const CEILING_SHARE = CEILING / FULL_SCALE;
const shares = (sound: Int16Array, gain = 1) =>
  Float64Array.from(sound, (sample) => (gain * sample) / FULL_SCALE);
const peakOf = (samples: Float64Array) => samples.reduce((peak, x) => Math.max(peak, Math.abs(x)), 0);
const db = (gain: number) => 20 * Math.log10(gain);

/** Returns the limited sound without its delay. */
function limited(sound: Float64Array, rate = RATE, cut = sound.length): Float64Array {
  const limiter = new Limiter(rate);
  const samples = new Float64Array(sound.length + limiter.delay);
  samples.set(sound);
  for (let at = 0; at < samples.length; at += cut) limiter.apply(samples.subarray(at, at + cut));
  return samples.subarray(limiter.delay);
}

it('the ceiling is 2 dB below full scale', () => {
  expect(db(CEILING_SHARE)).toBeLessThanOrEqual(-2);
  expect(db((CEILING + 1) / FULL_SCALE)).toBeGreaterThan(-2);
});

describe('a limiter', () => {
  it.each([8_000, 16_000, 48_000, 96_000])('at %i Hz keeps every sound at or below the ceiling', (rate) => {
    const click = new Float64Array(RATE / 10);
    click[1_000] = 20;
    click[1_001] = -0.9;
    const sounds = [
      shares(noise(0.5, 0.3), 3),
      shares(noise(0.5, 1)),
      shares(vowel({ hz: 90, formants: VOWELS.a, seconds: 0.5 }), 4),
      Float64Array.from({ length: RATE / 2 }, (_, i) => (i % 400 < 200 ? 1 : -1)),
      Float64Array.from({ length: RATE / 2 }, (_, i) => 2 * (i % 2) - 1),
      click,
    ];
    for (const [i, sound] of sounds.entries()) {
      const peak = peakOf(limited(sound, rate));
      expect(Math.round(peak * FULL_SCALE), `sound ${i}`).toBeLessThanOrEqual(CEILING);
      // It is no quieter than it must be.
      expect(db(peak / CEILING_SHARE), `sound ${i}`).toBeGreaterThan(-1);
    }
  });

  it('delays by 1.5 ms and leaves alone what is below the ceiling', () => {
    expect(new Limiter(RATE).delay).toBe(0.0015 * RATE);
    const quiet = shares(noise(1, 0.1));
    expect(peakOf(quiet)).toBeLessThan(CEILING_SHARE);
    expect(limited(quiet)).toEqual(quiet);
  });

  it('is the moving average of the least gains, worked out directly', () => {
    // Bursts of noise, some far apart and some close together, with silence and quiet sound between.
    const levels = [0.1, 1.5, 0, 0.1, 0.5, 0.2, 0, 3, 0.1, 0.1];
    const sound = shares(noise(2, 0.2)).map((x, i) => {
      const part = Math.floor(i / 4_800);
      return x * (levels[part % levels.length] as number) * (i % 3_000 < 100 ? 8 : 1);
    });
    const ahead = 0.0015 * RATE;
    const needs = sound.map((x) => Math.min(1, CEILING_SHARE / Math.abs(x)));
    let gain = 1;
    const gains = needs.map((_, n) => {
      const least = Math.min(...needs.subarray(Math.max(0, n - ahead), n + 1));
      const returning = gain + (1 - gain) * (1 - Math.exp(-1 / (0.1 * RATE)));
      gain = Math.min(least, returning > 0.9999 ? 1 : returning);
      return gain;
    });
    const made = limited(sound, RATE, 960);
    for (let n = 0; n < sound.length - ahead; n++) {
      const mean = gains.subarray(n, n + ahead + 1).reduce((a, b) => a + b, 0) / (ahead + 1);
      const wanted = mean * (sound[n] as number);
      if (Math.abs((made[n] as number) - wanted) > 1e-9)
        throw new Error(`${made[n]} instead of ${wanted} at ${n}`);
    }
    expect(gains.some((x) => x === 1) && gains.some((x) => x < 0.9)).toBe(true);
  });

  it('does not depend on how the sound is cut', () => {
    const sound = shares(noise(0.3, 0.4));
    expect(limited(sound, RATE, 7)).toEqual(limited(sound));
  });

  it('lowers a loud vowel evenly: the gain does not follow its pulses', () => {
    const sound = shares(vowel({ hz: 80, formants: VOWELS.a, seconds: 1 }), 4);
    const made = limited(sound);
    const gains: number[] = [];
    for (let i = RATE / 4; i < RATE - 100; i++)
      if (Math.abs(sound[i] as number) > 0.1) gains.push((made[i] as number) / (sound[i] as number));
    expect(Math.max(...gains)).toBeLessThan(0.8);
    expect(db(Math.max(...gains) / Math.min(...gains))).toBeLessThan(1.2);
  });

  it('moves its gain without steps, and is transparent again within half a second after a peak', () => {
    // A constant shows the gain itself.
    const sound = new Float64Array(RATE).fill(0.25);
    sound[RATE / 4] = 2;
    const gains = limited(sound).map((x) => x / 0.25);
    gains[RATE / 4] = gains[RATE / 4 + 1] as number;
    for (let i = 1; i < gains.length; i++) {
      const step = Math.abs((gains[i] as number) - (gains[i - 1] as number));
      if (step > 0.01) throw new Error(`a step of ${step} at ${i}`);
    }
    expect(Math.min(...gains)).toBeGreaterThan(0.39);
    expect(db(gains[(3 * RATE) / 4] as number)).toBeGreaterThan(-0.05);
    // Then it is exact again.
    expect(limited(joinedWith(sound, 2 * RATE)).at(-1)).toBe(0.25);
  });

  it('survives what is no number and what is absurdly large', () => {
    const sound = shares(noise(1, 0.1));
    for (const absurd of [Number.NaN, Number.POSITIVE_INFINITY, -1e300]) {
      const disturbed = joinedWith(sound, 2 * RATE);
      disturbed[100] = absurd;
      const made = limited(disturbed);
      expect(peakOf(made) * FULL_SCALE).toBeLessThan(CEILING + 0.5);
      expect(made.subarray(2 * RATE)).toEqual(disturbed.subarray(2 * RATE));
    }
  });
});

it('samples are rounded to the nearest', () => {
  const values = [0, 0.4, 0.6, -0.4, -0.6, 26_028, -32_768].map((x) => x / FULL_SCALE);
  expect(values.map(toSample)).toEqual([0, 0, 1, 0, -1, 26_028, -32_768]);
});

/** Returns the sound with more of its last sample, or the sound itself again. */
function joinedWith(sound: Float64Array, more: number): Float64Array {
  const out = new Float64Array(sound.length + more).fill(sound.at(-1) ?? 0);
  out.set(sound);
  return out;
}
