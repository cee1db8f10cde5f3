import { seeded } from '@semblance/testkit/sound/random';
import { noise as hiss, joined, speech, VOWELS, vowel } from '@semblance/testkit/voice/sounds';
import { describe, expect, it } from 'vitest';
import { FCPE_MEL, LogMel, MEL_BANDS, MEL_HOP, RMVPE_MEL } from './log-mel.ts';
import { BINS, pitchClass, pitchOfSalience } from './pitch-classes.ts';
import { Resampler } from './resampler.ts';
import { sourcePitch } from './source-pitch.ts';
import { Splicer } from './splice.ts';

const tone = (hz: number, rate: number, length: number, phase = 0) =>
  Float64Array.from({ length }, (_, i) => Math.sin(2 * Math.PI * ((hz * i) / rate + phase)));
const random = seeded(4);
const noise = (length: number) => Float64Array.from({ length }, () => 2 * random() - 1);

describe('the resampler', () => {
  it.each([
    [48_000, 16_000],
    [44_100, 16_000],
    [8_000, 16_000],
    [16_000, 16_000],
    [40_000, 48_000],
    [32_000, 22_050],
  ])('brings %i to %i, as late as it says, however the stream is cut', (from, to) => {
    const hz = 437;
    const input = tone(hz, from, from);
    const whole = new Resampler(from, to);
    const out = whole.push(input);
    expect(out.length).toBe(Math.ceil((input.length * to) / from));
    const cut = new Resampler(from, to);
    const pieces: number[] = [];
    for (let at = 0, size = 1; at < input.length; at += size, size = (size * 7) % 961)
      pieces.push(...cut.push(input.subarray(at, at + size)));
    expect(pieces).toEqual([...out]);
    let worst = 0;
    for (let i = Math.ceil(to / 10); i < out.length; i++) {
      const wanted = Math.sin(2 * Math.PI * hz * (i / to - whole.delay));
      worst = Math.max(worst, Math.abs((out[i] as number) - wanted));
    }
    expect(worst).toBeLessThan(2e-3);
  });

  it('takes away what the lower rate cannot have', () => {
    const out = new Resampler(48_000, 16_000).push(tone(9_500, 48_000, 48_000));
    expect(Math.max(...out.subarray(1_000).map(Math.abs))).toBeLessThan(0.01);
  });
});

describe('the splicer', () => {
  it('lays pieces that begin at any phase so that the tone goes on', () => {
    const [rate, hz, block, fade, search] = [32_000, 160, 3_200, 960, 320];
    const splicer = new Splicer(block, fade, search);
    const out: number[] = [];
    for (let k = 0; k < 20; k++) out.push(...splicer.add(tone(hz, rate, block + fade + search, random())));
    const period = rate / hz;
    let worst = 0;
    for (let i = 2 * block; i < out.length - period; i++)
      worst = Math.max(worst, Math.abs((out[i] as number) - (out[i + period] as number)));
    // Pieces fit to a sample; an error of 2 % of a turn is 0.1.
    expect(worst).toBeLessThan(0.04);
    expect(out.length).toBe(20 * block);
  });

  it('gives back a stream whose pieces fit', () => {
    const stream = noise(5_000);
    const splicer = new Splicer(1_000, 200, 0);
    const out = [0, 1, 2, 3].flatMap((k) => [...splicer.add(stream.slice(1_000 * k, 1_000 * k + 1_200))]);
    for (let i = 200; i < 4_000; i++) expect(out[i]).toBeCloseTo(stream[i] as number, 12);
  });
});

describe('classes of pitch', () => {
  it('are those of RVC', () => {
    expect([0, -1, 1, 50, 1_100, 5_000].map(pitchClass)).toEqual([1, 1, 1, 1, 255, 255]);
    // The classes are 1127 ln(1 + f/700), from 50 Hz at 1 to 1100 Hz at 255.
    const [low, high] = [50, 1_100].map((hz) => 1_127 * Math.log(1 + hz / 700)) as [number, number];
    for (const hz of [82.4, 110, 220, 261.6, 440, 880]) {
      const wanted = ((1_127 * Math.log(1 + hz / 700) - low) * 254) / (high - low) + 1;
      expect(Math.abs(pitchClass(hz) - wanted)).toBeLessThanOrEqual(0.5);
    }
  });

  it('of RMVPE are read at their strongest and around it', () => {
    const salience = new Float32Array(BINS);
    expect(pitchOfSalience(salience, 0.03)).toBe(0);
    salience[120] = 0.9;
    // 10 Hz · 2^((1997.379… + 20 · 120) / 1200)
    expect(pitchOfSalience(salience, 0.03)).toBeCloseTo(126.8, 2);
    salience[121] = 0.9;
    expect(pitchOfSalience(salience, 0.03)).toBeCloseTo(126.8 * 2 ** (10 / 1_200), 2);
    // Values farther away, or below the threshold, do not count.
    salience[130] = 0.8;
    expect(pitchOfSalience(salience, 0.03)).toBeCloseTo(126.8 * 2 ** (10 / 1_200), 2);
    expect(pitchOfSalience(salience, 0.95)).toBe(0);
    for (const edge of [0, BINS - 1]) {
      const one = new Float32Array(BINS);
      one[edge] = 1;
      expect(pitchOfSalience(one, 0.03)).toBeCloseTo(10 * 2 ** ((1997.3794084376191 + 20 * edge) / 1_200), 6);
    }
  });
});

const KINDS = {
  RMVPE: {
    kind: RMVPE_MEL,
    before: 512,
    floor: 0,
    lowest: 30,
    // HTK's scale.
    toMel: (hz: number) => 2_595 * Math.log10(1 + hz / 700),
    toHz: (mel: number) => 700 * (10 ** (mel / 2_595) - 1),
  },
  FCPE: {
    kind: FCPE_MEL,
    before: 432,
    floor: 1e-9,
    lowest: 0,
    // Slaney's scale, as librosa has it by default.
    toMel: (hz: number) => (hz < 1_000 ? hz / (200 / 3) : 15 + Math.log(hz / 1_000) / (Math.log(6.4) / 27)),
    toHz: (mel: number) => (mel < 15 ? (mel * 200) / 3 : 1_000 * Math.exp((mel - 15) * (Math.log(6.4) / 27))),
  },
} as const;

describe.each(Object.entries(KINDS))(
  'the mel bands of %s',
  (_name, { kind, before, floor, lowest, toMel, toHz }) => {
    const edge = (i: number) => toHz(toMel(lowest) + (i * (toMel(8_000) - toMel(lowest))) / (MEL_BANDS + 1));
    const turn = Array.from({ length: 1_024 }, (_, i) => (2 * Math.PI * i) / 1_024);
    const [cosines, sines] = [turn.map(Math.cos), turn.map(Math.sin)] as [number[], number[]];

    /** Computes one column from its definition. */
    function defined(samples: Float64Array, column: number): number[] {
      const last = samples.length - 1;
      const frame = turn.map((angle, i) => {
        const at = Math.abs(MEL_HOP * column - before + i);
        return (samples[at <= last ? at : 2 * last - at] as number) * (0.5 - 0.5 * Math.cos(angle));
      });
      const magnitudes = Array.from({ length: 513 }, (_, bin) => {
        let [re, im] = [0, 0];
        for (let i = 0; i < 1_024; i++) {
          re += (frame[i] as number) * (cosines[(bin * i) % 1_024] as number);
          im -= (frame[i] as number) * (sines[(bin * i) % 1_024] as number);
        }
        return Math.sqrt(re * re + im * im + floor);
      });
      return Array.from({ length: MEL_BANDS }, (_, band) => {
        const [left, centre, right] = [edge(band), edge(band + 1), edge(band + 2)];
        const sum = magnitudes.reduce((total, magnitude, bin) => {
          const hz = (bin * 16_000) / 1_024;
          const height = Math.min((hz - left) / (centre - left), (right - hz) / (right - centre));
          return total + magnitude * Math.max(0, height) * (2 / (right - left));
        }, 0);
        return Math.log(Math.max(1e-5, sum));
      });
    }
    const columnOf = (bands: Float32Array, columns: number, column: number) =>
      Array.from({ length: MEL_BANDS }, (_, band) => bands[band * columns + column] as number);
    /** Returns the largest difference of all columns. */
    function off(bands: Float32Array, samples: Float64Array, columns: number): number {
      return Math.max(
        ...Array.from({ length: columns }, (_, column) => {
          const wanted = defined(samples, column);
          return Math.max(
            ...columnOf(bands, columns, column).map((v, band) => Math.abs(v - (wanted[band] ?? 0))),
          );
        }),
      );
    }

    it.each([9, 10])('are those of a transform done by its definition, of %i columns', (columns) => {
      const samples = noise(1_700).map((value) => 0.3 * value);
      expect(off(new LogMel(kind).next(samples, columns), samples, columns)).toBeLessThan(1e-5);
    });

    const [WINDOW, COLUMNS, BLOCK] = [10_320, 64, 1_600];
    /**
     * Yields windows over a sound of 48 kHz as a converter has them: first silence, then a tenth of a second more
     * each time.
     */
    function* windowsOver(sound: Int16Array, count: number) {
      const stream = new Resampler(48_000, 16_000).push(
        Float64Array.from(sound, (sample) => sample / 32_768),
      );
      const padded = new Float64Array(WINDOW + stream.length);
      padded.set(stream, WINDOW);
      for (let k = 1; k <= count; k++) yield padded.slice(k * BLOCK, k * BLOCK + WINDOW);
    }
    const sung = () => joined([vowel({ hz: 118, formants: VOWELS.a, seconds: 0.8 }), hiss(0.4, 0.05)]);

    it('of a window that moves on are those of each window by itself', () => {
      const mel = new LogMel(kind);
      for (const [k, samples] of [...windowsOver(sung(), 9)].entries()) {
        const bands = mel.next(samples, COLUMNS, BLOCK);
        // The definition is slow, so only some windows are compared.
        if (k % 4 === 0) expect(off(bands, samples, COLUMNS)).toBeLessThan(1e-5);
        // The result and the kept columns are separate.
        bands.fill(0);
      }
    });

    it('are those of speech', { tags: ['speech', 'ffmpeg'] }, async () => {
      const mel = new LogMel(kind);
      for (const [k, samples] of [...windowsOver(await speech('flite slt'), 12)].entries()) {
        const bands = mel.next(samples, COLUMNS, BLOCK);
        if (k % 4 === 3) expect(off(bands, samples, COLUMNS)).toBeLessThan(1e-5);
      }
    });

    it('are worked out once, but for those that heard a mirrored end, and for a window that is another', () => {
      const [first, second] = [...windowsOver(sung(), 8)].slice(6) as [Float64Array, Float64Array];
      // This is another sound, so that kept columns are distinguished from computed ones.
      const other = noise(WINDOW);
      const mel = new LogMel(kind);
      const earlier = mel.next(first, COLUMNS, BLOCK);
      const after = mel.next(other, COLUMNS, BLOCK);
      const same = (column: number) =>
        columnOf(after, COLUMNS, column).every((v, band) => v === earlier[band * COLUMNS + column + 10]);
      const kept = Array.from({ length: COLUMNS }, (_, column) => column).filter(
        (column) => column + 10 < COLUMNS && same(column),
      );
      expect([kept.at(0), kept.at(-1), kept.length]).toEqual(kind === RMVPE_MEL ? [4, 51, 48] : [3, 50, 48]);
      for (const moved of [undefined, 1_601, 16_000]) {
        const anew = new LogMel(kind);
        anew.next(other, COLUMNS, BLOCK);
        expect(off(anew.next(second, COLUMNS, moved), second, COLUMNS), String(moved)).toBeLessThan(1e-5);
      }
    });
  },
);

describe('the pitch of a source', () => {
  const model = (name: string, ...roles: string[]) => ({
    name,
    options: {},
    inputs: roles.map((role) => ({ role, dims: [1, 64] })),
  });
  const run = () => Promise.reject(new Error('not in this test'));

  it('is not listened for where its voice takes none', () => {
    const content = model('content', 'sound');
    const of = (...roles: string[]) =>
      sourcePitch({ content, voice: model('voice', ...roles), pitch: undefined }, run);
    expect(of('feats', 'p_len', 'sid')).toBeUndefined();
    expect(of('feats', 'p_len', 'pitch', 'pitchf', 'sid')).toBeDefined();
  });
});
