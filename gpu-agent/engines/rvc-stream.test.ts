/** @module-tag python */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Voice } from '@semblance/common/voices/voice';
import { CONTRACTS } from '@semblance/engine-onnx/internal/contracts/catalog';
import { ivfFlatFile } from '@semblance/testkit/engine-onnx/faiss-file';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { noise } from '@semblance/testkit/engine-onnx/tiny-models';
import {
  tinyContentvec,
  tinyContentvec500,
  tinyRmvpe,
  tinyTone,
  tinyWaveformRmvpe,
} from '@semblance/testkit/engine-onnx/tiny-voices';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { rvcSettings } from '@semblance/testkit/engine-sidecar/rvc';
import { alto, ModelVoicesRig } from '@semblance/testkit/voice/model-voices-rig';
import { Splicer } from '@semblance/voice/internal/rvc/splice';
import { RvcConverter } from '@semblance/voice/rvc/rvc-converter';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const START_MS = 300_000;
const RATE = 16_000;
const run = promisify(execFile);
const rig = new ModelVoicesRig();
const SCRIPT = join(import.meta.dirname, '../../packages/testkit/engine-sidecar/rvc_stream.py');

type Fed = Readonly<Record<string, readonly number[]>>;

/** Speech-like sound: harmonics of a gliding pitch, with gaps of hiss. */
function speech(seconds: number): Int16Array {
  const hiss = noise(seconds * RATE, 5);
  let turns = 0;
  return Int16Array.from({ length: seconds * RATE }, (_, i) => {
    const at = i / RATE;
    turns += (140 + 60 * at) / RATE;
    const voiced = at % 0.5 < 0.35;
    const tone = [1, 2, 3, 5].reduce((sum, k) => sum + Math.sin(2 * Math.PI * k * turns) / k, 0);
    return 20_000 * (voiced ? tone / 2 : 0.2 * (hiss[i] as number));
  });
}

describe('a stream of the sidecar rvc', () => {
  let dir: string;
  let count = 0;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-rvc-'));
    await pythonEnv();
  }, START_MS);
  afterAll(async () => {
    await rig.closeModels();
    await rig.directories.close();
    await rm(dir, { recursive: true, force: true });
  });

  /** Converts blocks by the sidecar. */
  async function python(
    models: readonly GivenModel[],
    voice: Record<string, unknown>,
    sound: Float32Array,
    change: Record<string, unknown> = {},
  ): Promise<{ fed: Fed[]; made: number[] }> {
    const own = join(dir, `r${++count}`);
    const settings = await rvcSettings(own, await rig.directories.make(models), change);
    const file = join(own, 'sound');
    await writeFile(file, new Uint8Array(sound.buffer));
    const words = [SCRIPT, JSON.stringify({ pitch_hz: alto.pitchHz, model: 'my-voice', ...voice }), file];
    const options = { env: { ...process.env, ...settings }, maxBuffer: 1 << 28 };
    const { stdout } = await run(await pythonEnv(), words, options);
    return JSON.parse(stdout);
  }

  /** Converts a sound by the engine onnx. @returns its blocks, and what the voice was fed and gave */
  async function node(models: readonly GivenModel[], voice: Partial<Voice>) {
    const opened = await rig.open(...models);
    const of = opened.of('my-voice');
    const blocks: Float32Array[] = [];
    const fed: Fed[] = [];
    const gave: Float64Array[] = [];
    const converter = new RvcConverter({
      sampleRate: RATE,
      voice: { ...alto, ...voice },
      models: of,
      async run(name, feeds) {
        const copy = Object.entries(feeds).map(([role, { data }]) => [role, Array.from(data)] as const);
        if (name === of.content.name) blocks.push(Float32Array.from(copy[0]?.[1] ?? []).slice(-1_600));
        const result = await opened.run(name, feeds, AbortSignal.timeout(60_000));
        if (name === of.voice.name) {
          fed.push(Object.fromEntries(copy));
          gave.push(Float64Array.from(result.data));
        }
        return result;
      },
    });
    await converter.push(speech(1.2));
    const sound = Float32Array.from(blocks.flatMap((block) => [...block]));
    return { sound, fed, gave, rate: of.voice.options.sample_rate ?? 0 };
  }

  const index = (width: number) => {
    const vector = (seed: number) => Array.from(noise(width, seed), (value) => 0.3 * value);
    const centroids = [vector(31), vector(32), vector(33)];
    const lists = [0, 1, 2].map((list) => Array.from({ length: 7 }, (_, i) => vector(40 + 10 * list + i)));
    return { bytes: ivfFlatFile({ width, probes: 2, centroids, lists }) };
  };
  const salient = tinyRmvpe((band) => 60 + band);

  it.each<[string, readonly GivenModel[], Partial<Voice>, Record<string, unknown>]>([
    [
      'the layout of w-okada, its pitch moved into the range of the voice',
      [tinyContentvec(256), salient, tinyTone({ options: { speaker: 1 } })],
      {},
      {},
    ],
    [
      'the layout of RVC-Project, the wider content of a file with several layers, and a pitch by sound',
      [
        tinyContentvec500('contentvec_768'),
        tinyWaveformRmvpe(),
        tinyTone({ layout: 'rvc', width: 768, rate: 40_000 }),
      ],
      { transpose: 5 },
      { transpose: 5 },
    ],
    [
      'an index, with a part of it in sounds without a pitch',
      [
        ...[tinyContentvec(256, 3), tinyWaveformRmvpe()],
        { ...tinyTone({ rate: 48_000, options: { interpolate: 0 } }), index: index(256) },
      ],
      { transpose: -3, indexRate: 0.6, protect: 0.2 },
      { transpose: -3, index_rate: 0.6, protect: 0.2 },
    ],
  ])('is fed and joined as by the engine onnx: %s', async (_what, models, voice, said) => {
    const theirs = await node(models, voice);
    const ours = await python(models, said, theirs.sound);
    expect(theirs.fed.length).toBeGreaterThan(9);
    expect(ours.fed).toHaveLength(theirs.fed.length);
    for (const [i, fed] of ours.fed.entries()) {
      for (const [role, values] of Object.entries(fed)) {
        const wanted = theirs.fed[i]?.[role] ?? [];
        expect(values, `${role} of block ${i}`).toHaveLength(wanted.length);
        const most = values.reduce(
          (top, value, k) => Math.max(top, Math.abs(value - (wanted[k] as number))),
          0,
        );
        // Hz differ in the last digits of float32.
        expect(most, `${role} of block ${i}`).toBeLessThan(
          role === 'pitchf' ? 0.01 : role === 'pitch' ? 0.5 : 1e-4,
        );
      }
    }
    expect(new Set(ours.fed.flatMap(({ pitchf = [] }) => pitchf)).size).toBeGreaterThan(5);
    const [block, fade, search] = [100, 30, 10].map((ms) => (ms * theirs.rate) / 1_000) as [
      number,
      number,
      number,
    ];
    const splicer = new Splicer(block, fade, search);
    const joined = theirs.gave.flatMap((each) => [...splicer.add(each.slice(-(block + fade + search)))]);
    expect(ours.made).toHaveLength(joined.length);
    const far = joined.filter((value, i) => Math.abs(value - (ours.made[i] as number)) > 0.01);
    expect(far.length / joined.length).toBeLessThan(0.01);
  });

  const voice = [tinyContentvec(256), tinyWaveformRmvpe(), tinyTone({ options: { speaker: 1 } })];
  const floats = (of: (at: number) => number) => Float32Array.from({ length: RATE }, (_, i) => of(i / RATE));
  const level = (sound: readonly number[]) =>
    Math.sqrt(sound.reduce((sum, value) => sum + value ** 2, 0) / sound.length);

  it('finds the pitch by Praat where the settings say so', async () => {
    const tone = floats(
      (at) => 0.3 * Math.sin(2 * Math.PI * 220 * at) + 0.2 * Math.sin(2 * Math.PI * 440 * at),
    );
    const { fed } = await python(voice, { transpose: 0 }, tone, { pitch: 'pm' });
    const heard = fed.at(-1)?.pitchf ?? [];
    for (const hz of heard) expect(hz).toBeCloseTo(220, 0);
    const { fed: silent } = await python(
      voice,
      { transpose: 0 },
      floats(() => 0),
      { pitch: 'pm' },
    );
    expect(new Set(silent.at(-1)?.pitchf)).toEqual(new Set([0]));
  });

  it('takes the loudness of the source as far as rms_mix_rate says', async () => {
    const tone = floats((at) => 0.05 * Math.sin(2 * Math.PI * 220 * at));
    const of = async (mix: number) => {
      const { made } = await python(voice, { transpose: 12 }, tone, { pitch: 'pm', rms_mix_rate: mix });
      return level(made.slice(-8_000));
    };
    const [own, half, source] = [await of(1), await of(0.5), await of(0)];
    expect(source / 0.0354).toBeCloseTo(1, 1);
    expect(half / Math.sqrt(own * source)).toBeCloseTo(1, 1);
    expect(Math.abs(Math.log(own / source))).toBeGreaterThan(0.3);
  });

  it('knows the contracts of voices as the engine onnx does', async () => {
    const script =
      'import json; from semblance_sidecars.rvc.settings import KINDS; print(json.dumps([{n: [c.stage, list(c.needs), {k: o.default for k, o in c.options.items()}] for n, c in KINDS.run.items()}, KINDS.others]))';
    const [ran, others] = JSON.parse((await run(await pythonEnv(), ['-c', script])).stdout);
    const defaults = { speaker: 0, noise: 0.66666, interpolate: 1, sample_rate: null };
    for (const [name, [stage, needs, options]] of Object.entries(ran) as [
      string,
      [string, string[], object],
    ][]) {
      const contract = CONTRACTS.get(name);
      expect([contract?.stage, contract?.needs ?? []]).toEqual([stage, needs]);
      const rate = stage === 'voice' ? { sample_rate: 40_000 } : {};
      const known = { ...contract?.options.parse(rate), ...(stage === 'voice' && { sample_rate: null }) };
      expect(options).toEqual(name === 'rmvpe' ? { threshold: null } : known);
      if (stage === 'voice') expect(options).toEqual(defaults);
    }
    const all = { ...Object.fromEntries([...CONTRACTS].map(([name, { stage }]) => [name, stage])) };
    expect({ ...others, ...Object.fromEntries(Object.keys(ran).map((name) => [name, all[name]])) }).toEqual(
      all,
    );
  });
});
