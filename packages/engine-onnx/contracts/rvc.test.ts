import { basename } from 'node:path';
import { ivfFlatFile } from '@semblance/testkit/engine-onnx/faiss-file';
import { type GivenModel, ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { noise } from '@semblance/testkit/engine-onnx/tiny-models';
import {
  GAINS,
  PASSED,
  tinyContentvec,
  tinyContentvec500,
  tinyEcho,
  tinyFcpe,
  tinyRmvpe,
  tinyTone,
  tinyWaveformRmvpe,
} from '@semblance/testkit/engine-onnx/tiny-voices';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { openModelDir } from '../model-dir.ts';
import { SessionPool } from '../sessions/session-pool.ts';

const rig = new ModelDirRig();
const pools: SessionPool[] = [];
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.close();
});
afterAll(() => rig.close());

const faults = async (...models: GivenModel[]) => (await openModelDir(await rig.make(models))).faults;
const rmvpe = tinyRmvpe(() => 0);

async function open(...given: GivenModel[]): Promise<SessionPool> {
  const { models, faults } = await openModelDir(await rig.make(given));
  expect(faults).toEqual([]);
  const settings = { models, providers: ['cpu' as const], devices: [0], threads: 1 };
  const { pool } = await SessionPool.open(settings, AbortSignal.timeout(30_000));
  pools.push(pool);
  return pool;
}

describe('models of voices fit', () => {
  it('several in one directory, of both versions, with and without pitch, as exports differ', async () => {
    const found = await faults(
      ...[tinyContentvec(256), tinyContentvec(768, 3), rmvpe],
      ...[tinyEcho({ name: 'a', rank: 1 }), tinyEcho({ name: 'b', width: 768, rate: 48_000, rank: 2 })],
      ...[tinyTone({ name: 'c', rate: 40_000 }), tinyTone({ name: 'd', width: 768 })],
    );
    expect(found).toEqual([]);
  });

  it('in the layout of RVC, beside one of w-okada, with his encoder and his RMVPE', async () => {
    const found = await faults(
      ...[tinyContentvec500('contentvec_256'), tinyContentvec500('contentvec_768'), tinyWaveformRmvpe()],
      ...[tinyTone({ name: 'a', layout: 'rvc' }), tinyTone({ name: 'b', layout: 'rvc', width: 768 })],
      tinyTone({ name: 'c' }),
    );
    expect(found).toEqual([]);
  });

  it('with a pitch by FCPE, in place of RMVPE', async () => {
    for (const counted of [false, true])
      expect(
        await faults(
          tinyContentvec(256),
          tinyFcpe(() => 0, counted),
          tinyTone(),
        ),
      ).toEqual([]);
    expect(
      await faults(
        tinyContentvec(256),
        rmvpe,
        tinyFcpe(() => 0),
        tinyTone(),
      ),
    ).toEqual([expect.stringContaining('would both do this stage; keep one of them')]);
  });

  it('only with all that one of the layouts has', async () => {
    const other = {
      ...tinyContentvec(),
      contract: 'rvc_v1',
      name: 'my-voice',
      options: { sample_rate: 32_000 },
    };
    const [first] = await faults(tinyContentvec(), other);
    expect(first).toBe(
      'my-voice (my-voice.onnx): input "feats" or "phone": expected float32 or float16 [1 or open, open, 256], found "source" float32 [1, samples]',
    );
    expect(await faults({ ...tinyContentvec(256), contract: 'contentvec_768' })).toEqual([
      'contentvec_768 (contentvec_768.onnx): output "units": expected float32 or float16 [1 or open, open, 768], found float32 [1, frames, 256]',
    ]);
  });

  it('only with the encoder that they need, and only one of each', async () => {
    expect(await faults(tinyContentvec(256), tinyTone({ width: 768 }))).toEqual([
      'my-voice (my-voice.onnx): rvc_v2 needs a contentvec_768, and the manifest has none',
    ]);
    const twice = await faults(tinyContentvec(), { ...tinyContentvec(), name: 'second' }, tinyTone());
    expect(twice).toEqual([expect.stringContaining('would both do this stage; keep one of them')]);
  });

  it('only where the number of frames is open', async () => {
    expect(await faults(tinyContentvec(), tinyTone({ frames: 100 }))).toEqual([
      'my-voice (my-voice.onnx): input "feats": expected float32 or float16 [1 or open, open, 256], found float32 [1, 100, 256]',
      expect.stringContaining('input "pitch": expected int64 [1 or open, open], found int64 [1, 100]'),
      expect.stringContaining('input "pitchf": '),
    ]);
  });

  it('only with a rate that there is', async () => {
    for (const options of [
      { sample_rate: 44_100 },
      { sample_rate: undefined },
      { speaker: -1 },
      { pitch: 3 },
    ])
      expect(await faults(tinyContentvec(), tinyTone({ options })), JSON.stringify(options)).toHaveLength(1);
  });

  it('only when what comes out is as long as the rate says', async () => {
    const wrong = open(tinyContentvec(), tinyTone({ rate: 40_000, options: { sample_rate: 48_000 } }));
    await expect(wrong).rejects.toThrow(
      'my-voice (my-voice.onnx): output "audio": expected float32 or float16 [1 or open, 1, open] or [1 or open, open] or [open], found [1, 1, 25600] when it ran',
    );
  });
});

describe('an index of a voice fits', () => {
  const bytes = (width: number) => {
    const vector = new Array<number>(width).fill(0.5);
    return ivfFlatFile({ width, centroids: [vector], lists: [[vector]] });
  };

  it('when it is as wide as the content', async () => {
    const [first, second] = [tinyTone({ name: 'a' }), tinyTone({ name: 'b', width: 768 })];
    const { models, faults } = await openModelDir(
      await rig.make([
        ...[tinyContentvec(), tinyContentvec(768)],
        { ...first, index: { bytes: bytes(256) } },
        { ...second, index: { bytes: bytes(768), file: 'other.index' } },
      ]),
    );
    expect(faults).toEqual([]);
    const paths = models.map(({ index }) => index && basename(index.path));
    expect(paths).toEqual([undefined, undefined, 'a.index', 'other.index']);
  });

  it.each([
    [
      'of another width',
      tinyTone(),
      { bytes: bytes(768) },
      'my-voice.index has features of 768 numbers, and rvc_v1 needs 256',
    ],
    [
      'of something else',
      tinyContentvec(),
      { bytes: bytes(256) },
      'only a voice has one, and contentvec_256 is none',
    ],
    [
      'with another hash',
      tinyTone(),
      { bytes: bytes(256), sha256: 'ab'.repeat(32) },
      'sha256: expected abab',
    ],
    ['that is not there', tinyTone(), { sha256: 'ab'.repeat(32) }, 'there is no such file'],
    ['that is cut off', tinyTone(), { bytes: bytes(256).subarray(0, 500) }, 'my-voice.index is cut off'],
  ])('not %s', async (_what, model, index, fault) => {
    const others = model.contract === 'rvc_v1' ? [tinyContentvec()] : [tinyTone()];
    const found = await faults({ ...model, index }, ...others);
    expect(found).toHaveLength(1);
    expect(found[0]).toContain(`): index: ${fault}`);
  });
});

describe('models of voices compute what they compute', () => {
  const close = (found: Float32Array | undefined, wanted: readonly number[], within: number) => {
    expect(found?.length).toBe(wanted.length);
    const worst = wanted.reduce((most, value, i) => Math.max(most, Math.abs(value - (found?.[i] ?? 0))), 0);
    expect(worst).toBeLessThan(within);
  };

  it.each([2, 3] as const)('an encoder of rank %i', async (rank) => {
    const pool = await open(tinyContentvec(256, rank), tinyTone());
    const sound = noise(320 * 7 + 80, 3) as Float32Array<ArrayBuffer>;
    const wanted = Array.from({ length: 7 * 256 }, (_, i) => {
      const [frame, channel] = [Math.floor(i / 256), i % 256];
      return channel < PASSED ? (sound[320 * frame + 2 * channel] as number) : 0;
    });
    const dims = rank === 3 ? [1, 1, sound.length] : [1, sound.length];
    const { feats } = await pool.run('contentvec_256', { sound: { data: sound, dims } });
    expect(feats?.dims).toEqual([1, 7, 256]);
    close(feats?.data, wanted, 1e-6);
  });

  it.each([
    ['contentvec_256', 256, 1],
    ['contentvec_768', 768, 1 / 2],
  ] as const)('the layer that %s is, of a file with several', async (contract, width, level) => {
    const pool = await open(tinyContentvec500(contract), tinyTone({ width }));
    const sound = noise(320 * 2 + 80, 3) as Float32Array<ArrayBuffer>;
    const wanted = Array.from({ length: 2 * width }, (_, i) => {
      const [frame, channel] = [Math.floor(i / width), i % width];
      return channel < PASSED ? level * (sound[320 * frame + 2 * channel] as number) : 0;
    });
    const { feats } = await pool.run(contract, { sound: { data: sound, dims: [1, sound.length] } });
    close(feats?.data, wanted, 1e-6);
  });

  it('a voice with whole numbers among its inputs', async () => {
    const pool = await open(tinyContentvec(), tinyTone());
    const [hz, pitch] = [
      [0, 110, 220, 225],
      [1, 40, 90, 255],
    ] as const;
    const numbers = (values: readonly number[]) => ({
      data: Float32Array.from(values),
      dims: values.length === 1 ? [1] : [1, values.length],
    });
    const { audio } = await pool.run('my-voice', {
      feats: { data: new Float32Array(4 * 256), dims: [1, 4, 256] },
      p_len: numbers([4]),
      pitch: numbers(pitch),
      pitchf: numbers(hz),
      sid: numbers([1]),
    });
    let turns = 0;
    const wanted = Array.from({ length: 4 * 320 }, (_, i) => {
      const frame = Math.floor(i / 320);
      // The reference also sums in 32 bits.
      turns = Math.fround(turns + Math.fround((hz[frame] as number) * Math.fround(1 / 32_000)));
      const loud = (hz[frame] as number) > 0 ? (pitch[frame] as number) / 255 : 0;
      return GAINS[1] * loud * Math.sin(2 * Math.PI * turns);
    });
    close(audio?.data, wanted, 1e-4);
  });

  it('several streams in one run where the voice takes them, each as if it were alone', async () => {
    const feeds = (at: number) => {
      const [frames, hz] = [64, 100 + 20 * at];
      const filled = (value: number, ...dims: number[]) => ({
        data: new Float32Array(dims.reduce((a, b) => a * b, 1)).fill(value),
        dims,
      });
      return {
        feats: filled(0, 1, frames, 256),
        p_len: filled(frames, 1),
        pitch: filled(30 + at, 1, frames),
        pitchf: filled(hz, 1, frames),
        sid: filled(at % 2, 1),
        rnd: filled(at / 10, 1, 192, frames),
      };
    };
    const sung = async (batch: number | string) => {
      const pool = await open(tinyContentvec(), tinyTone({ layout: 'rvc', batch }));
      const all = await Promise.all([0, 1, 2, 3, 4].map((at) => pool.run('my-voice', feeds(at))));
      return { runs: pool.counts.runs, audio: all.map(({ audio }) => audio) };
    };
    const [alone, together] = [await sung(1), await sung('streams')];
    expect([alone.runs, together.runs]).toEqual([5, 2]);
    for (const [at, audio] of together.audio.entries()) {
      expect(audio?.dims).toEqual([1, 1, 64 * 320]);
      close(audio?.data, [...(alone.audio[at]?.data ?? [])], 1e-6);
    }
  });
});
