import { noise } from '@semblance/testkit/engine-onnx/tiny-models';
import { describe, expect, it } from 'vitest';
import { BANDS, gainOf, MelReader, SAMPLE_RATE, WINDOW_COLUMNS } from './mel.ts';

/**
 * Computes mel columns from the definitions: a Fourier sum, triangles on Slaney's scale, decibels, and 400 zeros on
 * both sides.
 */
function reference(sound: Float32Array, column: number): number[] {
  const emphasised = (i: number): number =>
    i < 0 || i >= sound.length ? 0 : (sound[i] as number) - 0.97 * (i > 0 ? (sound[i - 1] as number) : 0);
  const magnitudes = Array.from({ length: 401 }, (_, bin) => {
    let [re, im] = [0, 0];
    for (let i = 0; i < 800; i++) {
      const value = emphasised(column * 200 - 400 + i) * Math.sin((Math.PI * i) / 800) ** 2;
      re += value * Math.cos((2 * Math.PI * bin * i) / 800);
      im -= value * Math.sin((2 * Math.PI * bin * i) / 800);
    }
    return Math.sqrt(re * re + im * im);
  });
  const mel = (hz: number): number =>
    hz < 1000 ? hz / (200 / 3) : 15 + Math.log(hz / 1000) / (Math.log(6.4) / 27);
  const hertz = (m: number): number => (m < 15 ? (m * 200) / 3 : 1000 * 6.4 ** ((m - 15) / 27));
  const points = Array.from({ length: 82 }, (_, i) => hertz(mel(55) + ((mel(7600) - mel(55)) * i) / 81));
  return Array.from({ length: 80 }, (_, band) => {
    const [a = 0, b = 0, c = 0] = points.slice(band, band + 3);
    let sum = 0;
    for (const [bin, magnitude] of magnitudes.entries()) {
      const hz = bin * 20;
      const rise = hz <= b ? (hz - a) / (b - a) : (c - hz) / (c - b);
      if (rise > 0) sum += (magnitude * rise * 2) / (c - a);
    }
    return Math.min(4, Math.max(-4, 1.6 * Math.log10(Math.max(1e-5, sum)) + 2.4));
  });
}

async function* pieces(sound: Float32Array, sizes: readonly number[]): AsyncGenerator<Float32Array> {
  for (let at = 0, i = 0; at < sound.length; i++) {
    const size = sizes[i % sizes.length] as number;
    yield sound.slice(at, at + size);
    at += size;
  }
}

function speechLike(seconds: number): Float32Array {
  const rough = noise(Math.round(seconds * SAMPLE_RATE), 99);
  return rough.map((value, i) => {
    const t = i / SAMPLE_RATE;
    const loud = Math.max(0, Math.sin(2 * Math.PI * 3 * t));
    return (
      loud * (0.3 * Math.sin(2 * Math.PI * 220 * t) + 0.1 * Math.sin(2 * Math.PI * 1800 * t) + 0.02 * value)
    );
  });
}

function column(window: Float32Array, t: number): number[] {
  return Array.from({ length: BANDS }, (_, band) => window[band * WINDOW_COLUMNS + t] as number);
}

describe('mel windows', () => {
  const sound = speechLike(1);

  it.each([[[16_000]], [[1, 333, 4000]]])(
    'are those of the definition, in pieces of %j samples',
    async (sizes) => {
      const reader = new MelReader(pieces(sound, sizes));
      for (const [seconds, first] of [
        [0, 0],
        [0.04, 3],
        [0.5, 40],
      ] as const) {
        const window = await reader.window(seconds);
        expect(window).toHaveLength(BANDS * WINDOW_COLUMNS);
        for (const t of [0, 7, 15]) {
          const wanted = reference(sound, first + t);
          for (const [band, value] of column(window, t).entries())
            expect(value).toBeCloseTo(wanted[band] as number, 3);
        }
      }
      await reader.close();
    },
  );

  it('near the end are the last there are, also after it', async () => {
    const reader = new MelReader(pieces(sound, [5000]));
    const last = await reader.window(0.99);
    // One second has columns 0 to 80.
    expect(column(last, 15)).toEqual(reference(sound, 80).map((value) => expect.closeTo(value, 3)));
    expect(column(last, 0)).toEqual(reference(sound, 65).map((value) => expect.closeTo(value, 3)));
    expect(await reader.window(1.4)).toEqual(last);
  });

  it('of a sound shorter than a window end in silence', async () => {
    const reader = new MelReader(pieces(sound.slice(0, 1000), [300]));
    const window = await reader.window(0);
    expect(column(window, 2)).toEqual(
      reference(sound.slice(0, 1000), 2).map((value) => expect.closeTo(value, 3)),
    );
    expect(column(window, 6).every((value) => value === -4)).toBe(true);
    expect(await new MelReader(pieces(new Float32Array(0), [1])).window(0)).toEqual(window.map(() => -4));
  });

  it('of a long sound hold a few seconds of it at most', async () => {
    let given = 0;
    let asked = 0;
    const endless = async function* (): AsyncGenerator<Float32Array> {
      for (;;) {
        given++;
        yield new Float32Array(SAMPLE_RATE / 10);
      }
    };
    const reader = new MelReader(endless());
    for (let frame = 0; frame < 150; frame++) {
      const window = await reader.window(frame / 25);
      asked += window.length;
      // The reader takes nothing beyond the window: 0.2 s and half a transform.
      expect(given / 10).toBeLessThan(frame / 25 + 0.4);
    }
    expect(asked).toBe(150 * BANDS * WINDOW_COLUMNS);
    await reader.close();
  });

  it('of a quiet sound are those of a loud one', async () => {
    const quiet = sound.map((value) => 0.2 * value);
    const [one, other] = [sound, quiet].map((given) => {
      const peak = given.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      return new MelReader(pieces(given, [5000]), gainOf(peak));
    });
    const windows = [await one?.window(0.3), await other?.window(0.3)];
    expect([...(windows[1] ?? [])]).toEqual([...(windows[0] ?? [])].map((value) => expect.closeTo(value, 3)));
    expect(Math.max(...(windows[0] ?? []))).toBeGreaterThan(
      Math.max(...(await new MelReader(pieces(quiet, [5000])).window(0.3))) + 1,
    );
  });

  it('of a sound with nothing but noise stay low', () => {
    expect(gainOf(0.5)).toBe(2);
    expect(gainOf(0.001)).toBeCloseTo(31.6, 1);
    expect(gainOf(0)).toBeCloseTo(31.6, 1);
  });
});
