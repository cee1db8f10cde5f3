/**
 * @module-tag python
 * @module-tag ffmpeg
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { engineConformance } from '@semblance/testkit/conformance/vitest';
import {
  type DiffusersSettings,
  diffusersCommand,
  toldToDiffusers,
  writeDiffusersSettings,
} from '@semblance/testkit/engine-sidecar/diffusers';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { portraits } from '@semblance/testkit/gpu-agent/portraits';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Subject, sidecar } from '../conformance/subject.ts';

const START_MS = 300_000;
const idle = new AbortController().signal;
const run = promisify(execFile);
const ffmpeg = (...words: string[]) => run('ffmpeg', ['-v', 'error', ...words]);
const SOUND = ['-f', 'lavfi', '-i', 'sine=f=440:d=3'];

/** Writes a clip of 1.2 s in three colours, at 10 frames in a second. */
async function clip(path: string): Promise<string> {
  const colours = ['red', 'lime', 'blue'].map((colour) => `color=${colour}:s=96x64:r=10:d=0.4`);
  const joined = `${colours.map((each, index) => `${each}[${index}]`).join(';')};[0][1][2]concat=n=3[v]`;
  await ffmpeg(
    ...SOUND,
    '-filter_complex',
    joined,
    ...['-map', '[v]', '-map', '0:a', '-t', '1.2'],
    '-f',
    'mp4',
    path,
  );
  return path;
}

async function probe(path: string) {
  const show = 'stream=codec_name,width,height,avg_frame_rate,nb_frames,duration';
  const { stdout } = await run('ffprobe', ['-v', 'error', '-show_entries', show, '-of', 'json', path]);
  return JSON.parse(stdout).streams as Record<string, string>[];
}

describe('the sidecar for diffusers', () => {
  let dir: string;
  let settings: string;
  let subject: Subject;
  let inputs: Record<string, string>;
  let opened = 0;

  async function open(change?: (settings: DiffusersSettings) => void, cards = 0) {
    const own = join(dir, `s${++opened}`);
    settings = await writeDiffusersSettings(join(own, 'settings'), change);
    const start = sidecar(join(own, 'engine.sock'), await diffusersCommand(settings, cards));
    return start({ dir, signal: AbortSignal.timeout(60_000) });
  }

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-diffusers-'));
    await pythonEnv();
    inputs = { ...(await portraits(dir, 288)).inputs };
    subject = await open();
  }, START_MS);
  afterAll(async () => {
    await subject?.close();
    await rm(dir, { recursive: true, force: true });
  });

  engineConformance({
    title: 'the sidecar for diffusers',
    works: [
      {
        capability: 'face-swap-image',
        async samples(own) {
          const { inputs } = await portraits(own, 288);
          const text = join(own, 'text');
          await writeFile(text, 'no picture');
          const bad = {
            name: 'a face that is no picture',
            inputs: { ...inputs, face: text },
            code: 'unsupported_format',
          } as const;
          return { inputs, bad: [bad] };
        },
        cancelMs: 5_000,
      },
      {
        capability: 'face-swap',
        samples: async (own) => ({
          inputs: {
            video: await clip(join(own, 'clip')),
            face: (await portraits(own, 288)).inputs.face ?? '',
          },
          bad: [],
        }),
        cancelMs: 5_000,
      },
    ],
    async start(options) {
      const own = join(options.dir, 'shared');
      await mkdir(own);
      const path = await writeDiffusersSettings(join(own, 'settings'));
      return sidecar(join(own, 'engine.sock'), await diffusersCommand(path))(options);
    },
  });

  async function render(
    parameters: Record<string, string>,
    {
      on = subject,
      signal = idle,
      files = inputs,
      capability = 'face-swap-image' as 'face-swap-image' | 'face-swap' | 'lip-sync',
      onProgress = (_fraction: number, _stage: string) => {},
    } = {},
  ) {
    const outputDir = await mkdtemp(join(dir, 'out-'));
    const result = await on.render(
      { capability, inputs: files, parameters, outputDir },
      { signal, onProgress },
    );
    return { ...result, path: join(outputDir, 'output') };
  }

  it('gives the pipeline what the settings say, and tells the steps and the models', async () => {
    const told: [number, string][] = [];
    const rendered = await render({ mode: 'ok', steps: 'few' }, { onProgress: (...said) => told.push(said) });
    expect(rendered).toMatchObject({
      contentType: 'image/png',
      units: { unit: 'image', quantity: 1 },
      details: { pipeline: 'TrialImg2ImgPipeline', weights: 'tiny' },
    });
    expect(told.map(([fraction]) => fraction)).toEqual(expect.arrayContaining([0.05, 0.49, 0.93]));
    expect(await toldToDiffusers(settings, 'from_pretrained')).toContainEqual({
      folder: 'weights',
      dtype: 'float16',
      local_files_only: true,
      use_safetensors: true,
    });
    expect(await toldToDiffusers(settings, 'vae_tiling')).toHaveLength(1);
    expect(await toldToDiffusers(settings, 'adapters')).toEqual([{ names: ['lora0'], scales: [0.5] }]);
    // 288 x 288 pixels become at most 40 000, with sides that are multiples of 16.
    expect((await toldToDiffusers(settings, 'call')).at(-1)).toEqual({
      device: 'cpu',
      prompt: 'ok',
      image: 'picture 192x192',
      face_image: expect.stringMatching(/^picture \d+x\d+$/),
      strength: 0.8,
      num_inference_steps: 4,
      guidance_scale: 2.5,
      negative_prompt: 'blurred',
      width: 192,
      height: 192,
      generator: 'cpu 7',
      output_type: 'np',
      return_dict: true,
    });
    expect(await sharp(`${rendered.path}.png`).metadata()).toMatchObject({ width: 192, height: 192 });
    const hash = (text: string) => run('sh', ['-c', text], { cwd: join(settings, '../weights') });
    const lists = "find -L . -type f -not -path '*/.*' | LC_ALL=C sort | xargs sha256sum | sha256sum";
    expect(rendered.findings?.models).toEqual([
      { name: 'tiny', sha256: (await hash(lists)).stdout.slice(0, 64), licence: 'OpenRAIL++-M' },
      {
        name: 'swap',
        sha256: (await hash('sha256sum ../swap.safetensors')).stdout.slice(0, 64),
        licence: 'MIT',
      },
    ]);
  });

  it('keeps frames, rate, colours and sound of a video', async () => {
    const video = await clip(join(dir, 'clip'));
    const files = { video, face: inputs.face ?? '' };
    const rendered = await render({}, { capability: 'face-swap', files });
    expect(rendered).toMatchObject({ contentType: 'video/mp4', units: { unit: 'second', quantity: 1.2 } });
    // Twelve frames go in as thirteen, of the form 4 n + 1.
    expect((await toldToDiffusers(settings, 'call')).at(-1)).toMatchObject({
      frames: 13,
      num_frames: 13,
      fps: 10,
    });
    const [picture, sound] = await probe(`${rendered.path}.mp4`);
    expect(picture).toMatchObject({
      codec_name: 'h264',
      width: 96,
      height: 64,
      avg_frame_rate: '10/1',
      nb_frames: '12',
    });
    expect(sound).toMatchObject({ codec_name: 'aac' });
    expect(Number(sound?.duration)).toBeCloseTo(1.2, 1);
    const colours = await run(
      'ffmpeg',
      [
        '-v',
        'error',
        '-i',
        `${rendered.path}.mp4`,
        '-vf',
        'scale=1:1',
        '-f',
        'rawvideo',
        '-pix_fmt',
        'rgb24',
        '-',
      ],
      { encoding: 'buffer' },
    );
    for (const [frame, channel] of [
      [0, 0],
      [3, 0],
      [4, 1],
      [8, 2],
      [11, 2],
    ] as const) {
      const found = [...colours.stdout.subarray(3 * frame, 3 * frame + 3)];
      expect(found.map((value) => value > 128)).toEqual([0, 1, 2].map((each) => each === channel));
      expect(Math.max(...found)).toBeGreaterThan(245);
    }
  });

  it('scales a video to what the job asks, and refuses a longer one', async () => {
    const video = await clip(join(dir, 'scaled'));
    const files = { video, face: inputs.face ?? '' };
    const { path } = await render({ output_resolution_p: '480' }, { capability: 'face-swap', files });
    expect((await probe(`${path}.mp4`))[0]).toMatchObject({ width: 720, height: 480 });
    const long = join(dir, 'long');
    await ffmpeg('-f', 'lavfi', '-i', 'testsrc2=d=6.2:s=32x32:r=10', '-f', 'mp4', long);
    await expect(
      render({}, { capability: 'face-swap', files: { ...files, video: long } }),
    ).rejects.toMatchObject({
      code: 'input_too_large',
      message: 'The video would have 62 frames, more than 61.',
    });
  });

  it('keeps the sound where it was when the picture begins late, and refuses a video that is broken', async () => {
    const face = inputs.face ?? '';
    const video = await clip(join(dir, 'early'));
    const late = join(dir, 'late');
    const both = ['-itsoffset', '0.4', '-i', video, '-i', video, '-map', '0:v', '-map', '1:a'];
    await ffmpeg(...both, '-c', 'copy', '-f', 'mp4', late);
    const rendered = await render({}, { capability: 'face-swap', files: { video: late, face } });
    expect(rendered.units).toEqual({ unit: 'second', quantity: 1.6 });
    const broken = join(dir, 'broken');
    await ffmpeg('-i', video, '-c', 'copy', '-movflags', '+faststart', '-f', 'mp4', broken);
    const bytes = await readFile(broken);
    await writeFile(broken, bytes.fill(0, bytes.indexOf('mdat') + 4_000));
    await expect(
      render({}, { capability: 'face-swap', files: { video: broken, face } }),
    ).rejects.toMatchObject({
      code: 'unsupported_format',
    });
  });

  it('gives a spoken video the length of the sound', async () => {
    const audio = join(dir, 'audio');
    await ffmpeg(...SOUND, '-t', '2.5', '-f', 'wav', audio);
    const files = { video: await clip(join(dir, 'short')), audio };
    const rendered = await render({}, { capability: 'lip-sync', files });
    expect(rendered.units).toEqual({ unit: 'second', quantity: 2.5 });
    expect((await toldToDiffusers(settings, 'call')).at(-1)).toMatchObject({
      frames: 25,
      audio: 'float32 (20000,)',
    });
  });

  it.each(['slow', 'long-step'])('ends a cancelled render without ending its process: %s', async (mode) => {
    const loads = async () => (await toldToDiffusers(settings, 'from_pretrained')).length;
    const before = await loads();
    const cancel = new AbortController();
    const onProgress = (_: number, stage: string) =>
      void (stage === 'denoise' && cancel.abort(new Error('enough')));
    await expect(render({ mode }, { signal: cancel.signal, onProgress })).rejects.toThrow('enough');
    expect((await render({ mode: 'ok' })).contentType).toBe('image/png');
    expect(await loads()).toBe(before);
  });

  it('renders on the device of each worker, and shares a loaded pipeline', async () => {
    const two = await open((settings) => {
      settings.devices = ['cuda:0', 'cuda:1'];
      const lips = settings.capabilities['lip-sync'] as Record<string, unknown>;
      settings.capabilities = {
        'face-swap-image': { ...settings.capabilities['face-swap-image'], memory: { cpu_offload: 'model' } },
        'face-swap': settings.capabilities['face-swap'] as Record<string, unknown>,
        'lip-sync': lips,
      };
    }, 2);
    try {
      expect(await toldToDiffusers(settings, 'from_pretrained')).toHaveLength(4);
      const offloads = await toldToDiffusers(settings, 'offload');
      expect(offloads.map(({ device }) => device).toSorted()).toEqual(['cuda:0', 'cuda:1']);
      await Promise.all([render({ mode: 'ok' }, { on: two }), render({ mode: 'ok' }, { on: two })]);
      expect(await toldToDiffusers(settings, 'free')).toHaveLength(2);
    } finally {
      await two.close();
    }
  });
});
