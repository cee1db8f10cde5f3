/**
 * @module-tag python
 * @module-tag ffmpeg
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { RenderResult } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import { headAndFace } from '@semblance/testkit/conformance/heads';
import { engineConformance } from '@semblance/testkit/conformance/vitest';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { FACE, FIVE, rgb, useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import { detector } from '@semblance/testkit/engine-onnx/swap-tests';
import { tinyAnchored, tinyYoloface, tinyYunet } from '@semblance/testkit/engine-onnx/tiny-detectors';
import {
  noise,
  tiny2dfan4,
  tinyArcface,
  tinyBisenet,
  tinyConverter,
  tinyDfm,
  tinyEnhancer,
  tinyPictureSwapper,
  tinySwapper,
  tinyXseg,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { ortCommand, tinySeeing } from '@semblance/testkit/engine-sidecar/ort';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { portraits } from '@semblance/testkit/gpu-agent/portraits';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Subject, sidecar } from '../conformance/subject.ts';

const START_MS = 300_000;
const idle = new AbortController().signal;
const run = promisify(execFile);
const rig = useOnnxRig();

const arcface: GivenModel = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };
const inswapper = (options: Record<string, unknown> = {}): GivenModel => ({
  contract: 'inswapper_128',
  bytes: tinySwapper(),
  options,
});
const xseg: GivenModel = { contract: 'xseg_1', bytes: tinyXseg() };
const bisenet: GivenModel = { contract: 'bisenet_resnet_34', bytes: tinyBisenet() };
const gfpgan: GivenModel = { contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 0.8, 0.1) };
/** Differences of two results, in levels of 255: of all samples, and of any. Resampling rounds places to 1/32 pixel. */
const TOLERANCE = { mean: 0.1, most: 4 };
/** The face of the small samples of the suite. */
const SMALL = {
  ...FACE,
  ...{ x: 80, y: 50, width: 110, height: 140 },
  five: FIVE.map(({ x, y }) => ({ x: 60 + x * 0.3, y: 20 + y * 0.3 })),
};

describe('the sidecar ort', () => {
  let dir: string;
  let opened = 0;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-ort-'));
    await pythonEnv();
  }, START_MS);
  afterAll(() => rm(dir, { recursive: true, force: true }));

  async function open(models: readonly GivenModel[], change?: Record<string, unknown>, order?: string[]) {
    const own = join(dir, `s${++opened}`);
    const words = await ortCommand(join(own, 'settings'), await rig.modelDir(models, order), change);
    return sidecar(join(own, 'engine.sock'), words)({ dir, signal: AbortSignal.timeout(60_000) });
  }

  async function render(subject: Subject, inputs: Record<string, string>, parameters = {}) {
    const outputDir = await mkdtemp(join(dir, 'out-'));
    const capability = inputs.video ? ('face-swap' as const) : ('face-swap-image' as const);
    return subject.render({ capability, inputs, parameters, outputDir }, { signal: idle, onProgress() {} });
  }

  const tiny = [{ contract: 'yoloface_8n', bytes: tinySeeing(SMALL) }, arcface, inswapper()];
  engineConformance({
    title: 'the sidecar ort',
    works: [
      { capability: 'face-swap-image', samples: (own) => portraits(own, 288), cancelMs: 5_000 },
      { capability: 'face-swap', samples: headAndFace, cancelMs: 5_000 },
    ],
    async start(options) {
      const own = join(options.dir, 'shared');
      await mkdir(own);
      const words = await ortCommand(join(own, 'settings'), await rig.modelDir(tiny), { workers: 2 });
      return sidecar(join(own, 'engine.sock'), words)(options);
    },
  });

  /** A picture without a face for `builtin`, so that both engines know no outline of the face that the detector gives. */
  async function faceless(seed: number): Promise<string> {
    const raw = { width: 32, height: 32, channels: 3 as const };
    const spots = Uint8Array.from(noise(32 * 32 * 3, seed), (value) => 128 + 110 * value);
    return rig.file(
      'faceless.png',
      sharp(spots, { raw }).resize(512, 512, { kernel: 'cubic' }).png().toBuffer(),
    );
  }

  interface Difference {
    readonly mean: number;
    readonly most: number;
    /** Mean difference of the result to what it was made of, within the face. */
    readonly changed: number;
  }

  function difference(before: Picture, ours: Picture, theirs: Picture): Difference {
    expect([ours.width, ours.height]).toEqual([theirs.width, theirs.height]);
    let [sum, most, changed] = [0, 0, 0];
    for (let i = 0; i < ours.data.length; i++) {
      const off = Math.abs((ours.data[i] as number) - (theirs.data[i] as number));
      sum += off;
      most = Math.max(most, off);
      changed += Math.abs((ours.data[i] as number) - (before.data[i] as number));
    }
    return { mean: sum / ours.data.length, most, changed: changed / ours.data.length };
  }

  const points68 = Array.from({ length: 68 }, (_, i) => {
    const at = FIVE[i < 36 ? 2 : i < 42 ? 0 : i < 48 ? 1 : i < 54 ? 3 : 4] ?? { x: 0, y: 0 };
    return [(at.x - 60) / 6.5, (at.y - 100) / 6.5] as const;
  });
  const cases: [string, readonly GivenModel[], string[]?][] = [
    ['an inswapper as it comes', [detector, arcface, inswapper()]],
    [
      'every stage',
      [
        ...[detector, arcface, xseg, bisenet, gfpgan],
        { contract: '2dfan4', bytes: tiny2dfan4(points68, 0.8) },
        inswapper({ boost: 256, weight: 0.8, latent_norm: 'projected' }),
      ],
    ],
    [
      'the mask of a parser, and another order',
      [detector, arcface, bisenet, gfpgan, inswapper({ mask: 'parser', match: 0.5 })],
      ['enhancer', 'swapper', 'expression'],
    ],
    [
      'a converter',
      [
        { contract: 'yoloface_8n', bytes: tinyYoloface([FACE]) },
        ...[arcface, { contract: 'crossface_ghost', bytes: tinyConverter() }],
        { contract: 'ghost_2_256', bytes: tinySwapper({ size: 256 }), options: { weight: 0.2 } },
      ],
    ],
    [
      'a converter whose result is normalised',
      [
        { contract: 'det_10g', bytes: tinyAnchored([FACE], { batch: true }) },
        ...[arcface, { contract: 'crossface_simswap', bytes: tinyConverter(0.2) }],
        { contract: 'simswap_256', bytes: tinySwapper({ size: 256, type: 'float16' }) },
      ],
    ],
    [
      'a swapper that takes a picture',
      [
        { contract: 'yunet_2023_mar', bytes: tinyYunet([FACE]) },
        {
          contract: 'blendswap_256',
          bytes: tinyPictureSwapper(112),
          options: { mask: 'box', boost: 'auto' },
        },
      ],
    ],
    [
      'a model of DeepFaceLab, and an enhancer with a weight',
      [
        detector,
        { contract: 'dfm', bytes: tinyDfm(224, true), options: { morph: 0.7 } },
        { contract: 'codeformer', bytes: tinyEnhancer(512, 0.9, 0.05, true), options: { weight: 0.8 } },
      ],
    ],
  ];
  it.each(cases)('gives what the engine onnx gives: %s', async (_what, models, order) => {
    const inputs = { image: await faceless(7), face: await faceless(8) };
    const engine = await rig.engine(models, order);
    const theirs = await rig.swap(engine, { inputs });
    const subject = await open(models, {}, order);
    const ours = await render(subject, inputs);
    await subject.close();
    expect(theirs.details).toMatchObject({ faces: 1, width: 512, height: 512 });
    expect(ours.details).toMatchObject({ faces: '1', width: '512', height: '512' });
    const names = ({ findings }: RenderResult) => findings?.models?.map(({ name }) => name).toSorted();
    expect(names(ours)).toEqual(names(theirs));
    const off = difference(await rgb(inputs.image), await rgb(ours.outputPath), await rgb(theirs.outputPath));
    expect(off.changed).toBeGreaterThan(1);
    expect(off.mean).toBeLessThan(TOLERANCE.mean);
    expect(off.most).toBeLessThanOrEqual(TOLERANCE.most);
  });

  it('gives what the engine onnx gives for a portrait too, where the mask does not ask for its outline', async () => {
    const models = [detector, arcface, xseg, inswapper({ mask: 'box', match: 0 })];
    const inputs = { image: rig.image, face: rig.face };
    const theirs = await rig.swap(await rig.engine(models), { inputs });
    const subject = await open(models);
    const ours = await render(subject, inputs);
    const off = difference(await rgb(inputs.image), await rgb(ours.outputPath), await rgb(theirs.outputPath));
    expect(off.changed).toBeGreaterThan(1);
    expect(off.mean).toBeLessThan(TOLERANCE.mean);
    expect(off.most).toBeLessThanOrEqual(TOLERANCE.most);
    await subject.close();
  });

  it('keeps format, alpha, profile and orientation of a picture, and refuses what is none', async () => {
    const subject = await open(tiny);
    const portrait = sharp(rig.image).resize(300, 300);
    const of = async (image: string) => {
      const { outputPath, contentType } = await render(subject, { image, face: rig.face });
      return { contentType, ...(await sharp(outputPath).metadata()) };
    };
    const clear = await rig.file(
      'clear.png',
      portrait.clone().ensureAlpha(0.5).withIccProfile('p3').png().toBuffer(),
    );
    expect(await of(clear)).toMatchObject({
      contentType: 'image/png',
      channels: 4,
      hasAlpha: true,
      hasProfile: true,
    });
    const turned = portrait.clone().resize(300, 200).withMetadata({ orientation: 6 }).jpeg().toBuffer();
    expect(await of(await rig.file('turned.jpg', turned))).toMatchObject({
      ...{ contentType: 'image/jpeg', width: 200, height: 300, chromaSubsampling: '4:4:4' },
    });
    const grey = await rig.file(
      'grey.png',
      portrait.clone().greyscale().toColourspace('b-w').png().toBuffer(),
    );
    expect(await of(grey)).toMatchObject({ channels: 1 });
    expect((await of(await rig.file('a.webp', portrait.clone().webp().toBuffer()))).format).toBe('webp');
    const whole = await portrait.clone().jpeg().toBuffer();
    for (const bytes of [whole.subarray(0, 3000), Buffer.from('GIF89a'), Buffer.alloc(0)])
      await expect(of(await rig.file('bad', bytes))).rejects.toMatchObject({ code: 'unsupported_format' });
    const huge = sharp({ create: { width: 7000, height: 6000, channels: 3, background: '#789' } }).png();
    await expect(of(await rig.file('huge.png', huge.toBuffer()))).rejects.toMatchObject({
      code: 'input_too_large',
    });
    await subject.close();
  });

  it('keeps length, rate and sound of a video, and takes a size', async () => {
    const subject = await open(tiny, {
      capabilities: { 'face-swap': { memory_mib: 1, limits: { seconds: 2 } } },
    });
    const video = join(dir, 'video.mp4');
    const of = async (seconds: number, to: string) => {
      const still = ['-loop', '1', '-t', String(seconds), '-r', '30000/1001', '-i', rig.image];
      const sound = ['-f', 'lavfi', '-t', String(seconds), '-i', 'sine=440'];
      const coded = [
        '-vf',
        'scale=300:400,setsar=1',
        '-pix_fmt',
        'yuv420p',
        '-r',
        '30000/1001',
        '-c:a',
        'libmp3lame',
      ];
      await run('ffmpeg', ['-v', 'error', ...still, ...sound, ...coded, '-f', 'mp4', to]);
    };
    await of(0.9, video);
    const { outputPath, units, details, findings } = await render(
      subject,
      { video, face: rig.face },
      { output_resolution_p: '200' },
    );
    const entries = 'stream=codec_name,width,height,avg_frame_rate,nb_frames,color_space';
    const { stdout } = await run('ffprobe', [
      '-v',
      'error',
      '-show_entries',
      entries,
      '-of',
      'json',
      outputPath,
    ]);
    expect(JSON.parse(stdout).streams).toMatchObject([
      {
        ...{ codec_name: 'h264', width: 200, height: 266, avg_frame_rate: '30000/1001' },
        ...{ nb_frames: '27', color_space: 'bt709' },
      },
      { codec_name: 'aac' },
    ]);
    expect(units.quantity).toBeCloseTo(0.9, 2);
    expect(details).toMatchObject({ faces: '1', frames_with_swap: '27' });
    expect(findings).toMatchObject({ faces: { found: 1, changed: 1 }, hints: [] });
    const long = join(dir, 'long.mp4');
    await of(2.5, long);
    await expect(render(subject, { video: long, face: rig.face })).rejects.toMatchObject({
      code: 'input_too_large',
    });
    await subject.close();
  });

  it('fails a job whose model gives no numbers, with the name of the model', async () => {
    const blind = { ...inswapper(), bytes: tinySwapper({ tint: [Number.NaN, 0, 0] }) };
    const endless = { contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 1, Number.NaN) };
    for (const [name, model] of [['inswapper_128', blind] as const, ['gfpgan_1.4', endless] as const]) {
      const models = [detector, arcface, ...(name === 'gfpgan_1.4' ? [inswapper()] : []), model];
      const subject = await open(models);
      await expect(render(subject, { image: rig.image, face: rig.face })).rejects.toMatchObject({
        ...{ code: 'processing_failed', message: expect.stringContaining(`The model ${name} gave`) },
      });
      await subject.close();
    }
  });
});
