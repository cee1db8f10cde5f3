import type { FloatTensors } from '@semblance/engine-onnx/sessions/protocol';
import { seeded } from '@semblance/testkit/sound/random';
import { noise as hiss } from '@semblance/testkit/voice/sounds';
import { describe, expect, it } from 'vitest';
import { FrameNoise } from './frame-noise.ts';
import { RvcConverter } from './rvc-converter.ts';
import type { RunModel, RvcModels } from './rvc-models.ts';

const RATE = 16_000;
const WIDTH = 4;
const model = (name: string, roles: readonly string[], options = {}) => ({
  name,
  options,
  inputs: roles.map((role) => ({ role, dims: [1, 1] })),
});
const models: RvcModels = {
  voice: model('voice', ['feats', 'p_len', 'pitch', 'pitchf', 'sid', 'rnd'], {
    sample_rate: 32_000,
    speaker: 3,
    noise: 0.5,
    interpolate: 1,
  }),
  content: model('content', ['sound']),
  pitch: model('pitch', ['waveform', 'threshold']),
};

/** Models of numbers that are told; it keeps what the voice was fed. */
function told(f0: (run: number, frames: number) => readonly number[]) {
  const fed: FloatTensors[] = [];
  const contents: Float32Array[] = [];
  const heard: FloatTensors[] = [];
  const random = seeded(7);
  const run: RunModel = async (name, feeds) => {
    if (name === 'content') {
      const frames = Math.floor(((feeds.sound?.data.length ?? 0) - 400) / 320) + 1;
      const data = Float32Array.from({ length: frames * WIDTH }, random);
      contents.push(data.slice());
      return { data, dims: [1, frames, WIDTH] };
    }
    if (name === 'pitch') {
      const frames = Math.floor((feeds.waveform?.data.length ?? 0) / 160) + 1;
      heard.push(feeds);
      return { data: Float32Array.from(f0(heard.length - 1, frames)), dims: [1, frames] };
    }
    fed.push(feeds);
    return { data: new Float32Array((feeds.pitchf?.data.length ?? 0) * 320), dims: [1, 1, 1] };
  };
  return { fed, contents, heard, run };
}

/** RVC's `infer/vc/pipeline.py`, `get_f0`, from `uv = f0 == 0` on. */
function published(f0: readonly number[], upKey: number) {
  const at = f0.flatMap((hz, i) => (hz === 0 ? [] : [i]));
  const interp = (x: number) => {
    const next = at.findIndex((place) => place >= x);
    if (next === 0) return f0[at[0] as number] as number;
    if (next < 0) return f0[at.at(-1) as number] as number;
    const [a, b] = [at[next - 1] as number, at[next] as number];
    const slope = ((f0[b] as number) - (f0[a] as number)) / (b - a);
    return (f0[a] as number) + slope * (x - a);
  };
  const pitchf = f0.map((hz, i) => (hz === 0 && at.length > 0 ? interp(i) : hz) * 2 ** (upKey / 12));
  const [low, high] = [50, 1_100].map((hz) => 1_127 * Math.log(1 + hz / 700)) as [number, number];
  const pitch = pitchf.map((hz) => {
    let mel = 1_127 * Math.log(1 + hz / 700);
    if (mel > 0) mel = ((mel - low) * 254) / (high - low) + 1;
    return Math.round(mel <= 1 ? 1 : Math.min(mel, 255));
  });
  return { pitch, pitchf };
}

const pitchHz = { low: 160, high: 225 };
const sound = hiss(0.45, 0.3).filter((_, i) => i % 3 === 0);

describe('what a voice is fed', () => {
  const gaps = (run: number, frames: number) =>
    Array.from({ length: frames }, (_, i) => {
      if (run === 2) return 0;
      return i < 5 || i > frames - 4 || (i > 20 && i < 31) ? 0 : 90 + 3 * i + 40 * run;
    });

  it.each([0, 12, -5])('is what the published pipeline feeds it, transposed by %i', async (transpose) => {
    const { fed, contents, run } = told(gaps);
    await new RvcConverter({ sampleRate: RATE, voice: { pitchHz, transpose }, models, run }).push(sound);
    expect(fed).toHaveLength(4);
    for (const [i, feeds] of fed.entries()) {
      const { pitch, pitchf } = published(gaps(i, 64), transpose);
      expect(Array.from(feeds.pitch?.data ?? [])).toEqual(pitch);
      expect(Array.from(feeds.pitchf?.data ?? [])).toEqual(Array.from(Float32Array.from(pitchf)));
      // torch's interpolate with scale_factor 2 repeats each frame.
      const content = contents[i] as Float32Array;
      const doubled = Array.from({ length: 64 }, (_, frame) => [
        ...content.subarray((frame >> 1) * WIDTH, ((frame >> 1) + 1) * WIDTH),
      ]);
      expect(Array.from(feeds.feats?.data ?? [])).toEqual(doubled.flat());
      expect(feeds.feats?.dims).toEqual([1, 64, WIDTH]);
      expect([...(feeds.p_len?.data ?? []), ...(feeds.sid?.data ?? [])]).toEqual([64, 3]);
      expect(feeds.rnd?.dims).toEqual([1, 192, 64]);
    }
  });

  it('has no pitch between its voiced sounds where the model says so', async () => {
    const { fed, run } = told(gaps);
    const voice = { ...models.voice, options: { ...models.voice.options, interpolate: 0 } };
    const voiced = { ...models, voice };
    await new RvcConverter({ sampleRate: RATE, voice: { pitchHz, transpose: 0 }, models: voiced, run }).push(
      sound,
    );
    expect(Array.from(fed[0]?.pitchf?.data ?? [])).toEqual(gaps(0, 64));
  });

  describe('with an index', () => {
    const shared = (values: readonly number[]) => {
      const there = new Float32Array(new SharedArrayBuffer(4 * values.length));
      there.set(values);
      return there;
    };
    /** An index of one vector, which is therefore found for each frame. */
    const [only, starts] = [[0.5, -0.5, 2, 3], new Uint32Array(new SharedArrayBuffer(8))];
    starts[1] = 1;
    const index = {
      id: 'one',
      width: WIDTH,
      probes: 1,
      centroids: shared(only),
      starts,
      vectors: shared(only),
    };

    it.each([
      [{}, 0.75, 0.33],
      [{ indexRate: 0.4, protect: 0 }, 0.4, 0],
      [{ indexRate: 1, protect: 0.5 }, 1, 1],
      [{ indexRate: 0 }, 0, 1],
    ])(
      'mixes what is heard with it, and less of it where there is no voice: %o',
      async (change, rate, share) => {
        const { fed, contents, run } = told(gaps);
        const voice = { pitchHz, ...change };
        await new RvcConverter({ sampleRate: RATE, voice, models: { ...models, index }, run }).push(sound);
        for (const [i, { feats }] of fed.entries()) {
          const said = contents[i] as Float32Array;
          for (let frame = 0; frame < 64; frame++) {
            // The 0.16 s at the end are mixed; 0.14 s are heard.
            const mixed = frame < 48 ? 0 : rate * (gaps(i, 64)[frame] === 0 ? share : 1);
            for (const [k, found] of only.entries()) {
              const own = said[(frame >> 1) * WIDTH + k] as number;
              expect(feats?.data[frame * WIDTH + k]).toBeCloseTo(mixed * found + (1 - mixed) * own, 5);
            }
          }
        }
      },
    );
  });

  it('is moved into the range of the voice without a transposition', async () => {
    const { fed, run } = told((_, frames) => Array.from({ length: frames }, () => 95));
    const converter = new RvcConverter({ sampleRate: RATE, voice: { pitchHz }, models, run });
    await converter.push(new Int16Array(2 * RATE));
    for (const hz of fed.at(-1)?.pitchf?.data ?? []) expect(hz / Math.sqrt(160 * 225)).toBeCloseTo(1, 2);
  });

  it('is the same noise for the same sound, which stays with its frame', async () => {
    const runs = await Promise.all(
      [1, 2].map(async () => {
        const { fed, run } = told(gaps);
        await new RvcConverter({ sampleRate: RATE, voice: { pitchHz }, models, run }).push(sound);
        return fed.map(({ rnd }) => rnd?.data ?? new Float32Array(0));
      }),
    );
    expect(runs[0]).toEqual(runs[1]);
    const [first, second] = runs[0] as [Float32Array, Float32Array];
    for (const row of [0, 191])
      expect(second.subarray(row * 64, row * 64 + 54)).toEqual(first.subarray(row * 64 + 10, (row + 1) * 64));
  });

  it.each([
    [640, 64],
    [1_280, 128],
    [2_560, 256],
  ])('is a window of %i ms where that is the context', async (contextMs, frames) => {
    const { fed, heard, run } = told(gaps);
    const options = { sampleRate: RATE, voice: { pitchHz, transpose: 0 }, models, run };
    const converter = new RvcConverter({ ...options, contextMs });
    expect(converter.latencySamples).toBe(new RvcConverter(options).latencySamples);
    await converter.push(sound);
    expect(fed[0]?.feats?.dims).toEqual([1, frames, WIDTH]);
    expect(fed[0]?.rnd?.dims).toEqual([1, 192, frames]);
    expect(fed[0]?.pitchf?.dims).toEqual([1, frames]);
    // A spectrogram with centred columns, one for each 160 samples, has so many of this sound.
    expect(heard[0]?.waveform?.dims).toEqual([1, 160 * frames - 1]);
    expect(Array.from(heard[0]?.threshold?.data ?? [])).toEqual([Math.fround(0.3)]);
  });
});

it('refuses a model that gives another number of values', async () => {
  const { run } = told((_, frames) => Array.from({ length: frames + 1 }, () => 100));
  const converter = new RvcConverter({ sampleRate: RATE, voice: { pitchHz }, models, run });
  await expect(converter.push(sound)).rejects.toThrow('gave 65 values of pitch instead of 64');
});

it('draws normal noise of its deviation', () => {
  const values = new FrameNoise(192, 64, 0.66666).next(10);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const power = values.reduce((sum, value) => sum + value ** 2, 0) / values.length;
  const tails = values.filter((value) => Math.abs(value) > 2 * 0.66666).length / values.length;
  expect(Math.abs(mean)).toBeLessThan(0.02);
  expect(Math.sqrt(power)).toBeCloseTo(0.66666, 2);
  expect(tails).toBeCloseTo(0.0455, 2);
});
