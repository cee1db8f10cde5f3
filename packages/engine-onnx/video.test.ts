/**
 * @module-tag ffmpeg
 * @module-tag speech
 */
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Engine } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import type { VideoFrame } from '@semblance/media/types';
import { regionToRgb } from '@semblance/media/yuv';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { FACE, FIVE, rgb, useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import {
  ARCFACE_128,
  referenceColour,
  referenceEmbedding,
  referenceSwap,
  unit,
} from '@semblance/testkit/engine-onnx/swap-reference';
import { tinyAnchored } from '@semblance/testkit/engine-onnx/tiny-detectors';
import {
  noise,
  tiny2dfan4,
  tinyArcface,
  tinyEdtalk,
  tinyEnhancer,
  tinySwapper,
  tinyWav2lip,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { wavOf } from '@semblance/testkit/sound/wav';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const rig = useOnnxRig();
let media: MediaRig;
let clip: string;
beforeAll(async () => {
  media = await openMediaRig();
  clip = media.path('clip.mp4');
  // The clip has half the portrait's size and a sound, and drifts slowly.
  await promisify(execFile)('ffmpeg', [
    ...['-v', 'error', '-loop', '1', '-i', rig.image, '-f', 'lavfi', '-i', 'sine=300:sample_rate=48000'],
    ...['-t', '1.2', '-r', '25', '-vf', "crop=480:480:x='min(32,20*t)':y=16,scale=320:320,format=yuv420p"],
    ...[
      '-c:v',
      'libx264',
      '-crf',
      '10',
      '-colorspace',
      'bt709',
      '-color_primaries',
      'bt709',
      '-color_trc',
      'bt709',
    ],
    ...['-color_range', 'tv', '-c:a', 'aac', clip],
  ]);
});
afterAll(() => media.close());

const SPACE = { range: 'tv', space: 'bt709' } as const;
const toRgb = (frame: VideoFrame): Picture =>
  regionToRgb(frame, { x: 0, y: 0, width: frame.width, height: frame.height }, SPACE);

function mean(picture: Picture, box: readonly [number, number, number, number], c: number): number {
  const [left, top, right, bottom] = box;
  let sum = 0;
  for (let y = top; y < bottom; y++)
    for (let x = left; x < right; x++) sum += picture.data[(y * picture.width + x) * 3 + c] as number;
  return sum / (right - left) / (bottom - top);
}

/** Writes mono sound of 16 kHz to a file. */
async function wav(samples: Float32Array): Promise<string> {
  const body = Int16Array.from(samples, (value) => Math.round(value * 32_000));
  return rig.file('sound.wav', wavOf(body, 16_000));
}

async function render(
  engine: Engine,
  capability: 'face-swap' | 'lip-sync',
  inputs: Record<string, string>,
  more: {
    parameters?: Record<string, string>;
    signal?: AbortSignal;
    onProgress?: (fraction: number) => void;
  } = {},
) {
  return engine.render({
    capability,
    inputs,
    parameters: {},
    outputDir: await rig.outputDir(),
    signal: new AbortController().signal,
    onProgress: () => undefined,
    ...more,
  });
}

describe('Video Swap through the models', () => {
  const models: GivenModel[] = [
    { contract: 'scrfd_2.5g', bytes: tinyAnchored([FACE]) },
    { contract: 'arcface_w600k_r50', bytes: tinyArcface() },
    { contract: 'hyperswap_1a_256', bytes: tinySwapper({ size: 256, batch: 'n' }), options: { match: 0 } },
  ];

  it('changes the face in every frame as the model says, and nothing else', async () => {
    const engine = await rig.engine(models);
    expect(engine.capabilities.map(({ capability }) => capability)).toEqual(['face-swap-image', 'face-swap']);
    const seen: number[] = [];
    const { outputPath, units, details, findings, stages, contentType } = await render(
      engine,
      'face-swap',
      { video: clip, face: rig.face },
      { onProgress: (fraction) => seen.push(fraction) },
    );
    expect(contentType).toBe('video/mp4');
    expect(units).toEqual({ unit: 'second', quantity: expect.closeTo(1.2, 1) });
    expect(details).toMatchObject({
      faces: 1,
      frames: 30,
      frames_with_swap: 30,
      tracker: 'builtin facemesh',
      recogniser: 'onnx arcface_w600k_r50',
      swapper: 'onnx hyperswap_1a_256',
    });
    expect(findings).toEqual({
      faces: { found: 1, changed: 1, left: [] },
      hints: [],
      models: expect.arrayContaining([expect.objectContaining({ name: 'hyperswap_1a_256' })]),
    });
    expect(stages).toContainEqual({ name: 'tracker', milliseconds: expect.any(Number), engine: 'builtin' });
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    expect(seen.at(-1)).toBe(1);
    const [before, after] = [
      (await media.frames(clip)).map(toRgb),
      (await media.frames(outputPath)).map(toRgb),
    ];
    expect(after).toHaveLength(30);
    const colour = referenceColour(unit(referenceEmbedding(await rgb(rig.face), FIVE)));
    // The tiny swapper works like hyperswap: original × 0.4 plus an even colour over the middle of the face.
    const nose: [number, number, number, number] = [150, 185, 175, 210];
    for (const index of [0, 9, 10, 29]) {
      const [was, is] = [before[index] as Picture, after[index] as Picture];
      const wanted = [0, 1, 2].map(
        (c) => 0.4 * mean(was, nose, c) + 255 * (0.3 * (colour[c] as number) + 0.3),
      );
      for (const [c, value] of wanted.entries()) expect(Math.abs(mean(is, nose, c) - value)).toBeLessThan(4);
      for (const corner of [
        [0, 0, 40, 40],
        [280, 0, 320, 60],
        [0, 290, 320, 320],
      ] as const) {
        expect(Math.abs(mean(is, corner, 1) - mean(was, corner, 1))).toBeLessThan(1.5);
      }
    }
  });

  it('places the faces by the points of a landmark model', async () => {
    // The model sees the face 4 pixels of its grid further right than it is, in every frame.
    const points = Array.from({ length: 68 }, (_, i): [number, number] => {
      if (i >= 36 && i < 42) return [25, 22];
      if (i >= 42 && i < 48) return [47, 22];
      if (i === 30) return [36, 33];
      return [i === 48 ? 27 : 45, 44];
    });
    const landmarks = { contract: '2dfan4', bytes: tiny2dfan4(points, 0.95) };
    const [plain, moved] = [await rig.engine(models), await rig.engine([...models, landmarks])];
    const inputs = { video: clip, face: rig.face };
    const [one, other] = [await render(plain, 'face-swap', inputs), await render(moved, 'face-swap', inputs)];
    expect(other.details).toMatchObject({ landmarks: 'onnx 2dfan4', frames_with_swap: 30 });
    const frames = await Promise.all(
      [one, other].map(async ({ outputPath }) => (await media.frames(outputPath)).map(toRgb)),
    );
    const apart = (index: number) =>
      Math.abs(
        mean(frames[0]?.[index] as Picture, [150, 185, 175, 210], 1) -
          mean(frames[1]?.[index] as Picture, [150, 185, 175, 210], 1),
      );
    // The tiny swapper draws the same colour wherever the crop lies.
    for (const index of [0, 10, 29]) expect(apart(index)).toBeLessThan(8);
  });

  it('says when there is no face or no video, and ends when cancelled, leaving nothing', async () => {
    const engine = await rig.engine(models.slice(1));
    const blank = await media.make(
      'blank.mp4',
      '-f lavfi -i color=c=0x4488aa:size=160x120:rate=10:duration=1',
    );
    await expect(render(engine, 'face-swap', { video: blank, face: rig.face })).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringMatching(/video_key/),
    });
    await expect(render(engine, 'face-swap', { video: rig.image, face: rig.face })).rejects.toMatchObject({
      code: 'unsupported_format',
    });
    const abort = new AbortController();
    const outputDir = await rig.outputDir();
    const ending = engine.render({
      capability: 'face-swap',
      inputs: { video: clip, face: rig.face },
      parameters: {},
      outputDir,
      signal: abort.signal,
      onProgress: (fraction) => {
        if (fraction > 0.3) abort.abort(new Error('changed his mind'));
      },
    });
    await expect(ending).rejects.toThrow('changed his mind');
    expect(await readdir(outputDir)).toEqual([]);
  });
});

it('works out the same face in a frame as in a picture', async () => {
  // This checks the reference by which the frames are judged.
  const source = await rgb(rig.face);
  const colour = referenceColour(unit(referenceEmbedding(source, FIVE)));
  const half = { mean: [0.5, 0.5, 0.5], deviation: [0.5, 0.5, 0.5], denormalise: true };
  const swap = referenceSwap(source, FIVE, colour, { size: 256, template: ARCFACE_128, ...half });
  const at = (300 * source.width + 256) * 3;
  expect(
    Math.abs(
      swap.read(256.5, 300.5, 0) -
        (0.4 * (source.data[at] as number) + 255 * (0.3 * (colour[0] as number) + 0.3)),
    ),
  ).toBeLessThan(8);
});

describe('Lip Sync through wav2lip', () => {
  const silence = new Float32Array(8_000);
  const sound = Float32Array.from([...silence, ...noise(11_200, 5).map((value) => 0.8 * value)]);
  const MOUTH: [number, number, number, number] = [145, 222, 180, 240];
  const EYES: [number, number, number, number] = [90, 120, 230, 150];

  it('moves the mouth with the sound, in time, and nothing above it', async () => {
    const engine = await rig.engine([{ contract: 'wav2lip_gan_96', bytes: tinyWav2lip() }]);
    expect(engine.capabilities.map(({ capability }) => capability)).toEqual(['lip-sync']);
    const audio = await wav(sound);
    const { outputPath, units, details, findings } = await render(engine, 'lip-sync', { video: clip, audio });
    expect(findings).toEqual({
      faces: { found: 1, changed: 1, left: [] },
      hints: [],
      models: expect.arrayContaining([expect.objectContaining({ name: 'wav2lip_gan_96' })]),
    });
    expect(units).toEqual({ unit: 'second', quantity: expect.closeTo(1.2, 1) });
    expect(details).toMatchObject({
      lips: 'onnx wav2lip_gan_96',
      tracker: 'builtin facemesh',
      frames: 30,
      frames_with_face: 30,
    });
    const [before, after] = [
      (await media.frames(clip)).map(toRgb),
      (await media.frames(outputPath)).map(toRgb),
    ];
    const light = after.map(
      (picture, i) => mean(picture, MOUTH, 1) - 0.5 * mean(before[i] as Picture, MOUTH, 1),
    );
    // The sound begins at 0.5 s, and a frame is drawn from the 0.2 s of sound after it.
    for (let i = 0; i < 7; i++) expect(light[i]).toBeLessThan(15);
    for (let i = 13; i < 30; i++) expect(light[i]).toBeGreaterThan(60);
    for (let i = 8; i < 13; i++) expect(light[i + 1] as number).toBeGreaterThan((light[i] as number) - 1);
    for (const [i, picture] of after.entries()) {
      expect(Math.abs(mean(picture, EYES, 1) - mean(before[i] as Picture, EYES, 1))).toBeLessThan(1.5);
    }
  });

  it('through edtalk draws the whole face with the sound, as far as its weight says', async () => {
    const audio = await wav(sound);
    const drawn = async (weight: number): Promise<Picture> => {
      const edtalk = { contract: 'edtalk_256', bytes: tinyEdtalk(), options: { weight } };
      const engine = await rig.engine([edtalk]);
      const { outputPath, details } = await render(engine, 'lip-sync', { video: clip, audio });
      expect(details).toMatchObject({ lips: 'onnx edtalk_256', frames: 30, frames_with_face: 30 });
      return (await media.frames(outputPath)).map(toRgb)[20] as Picture;
    };
    const before = (await media.frames(clip)).map(toRgb)[20] as Picture;
    const [none, all] = [await drawn(0), await drawn(1)];
    for (const place of [MOUTH, EYES]) {
      expect(Math.abs(mean(none, place, 1) - 0.5 * mean(before, place, 1))).toBeLessThan(4);
      // Loud sound adds nearly half of white.
      expect(mean(all, place, 1) - mean(none, place, 1)).toBeGreaterThan(60);
    }
  });

  it('lets a last frame that stands long stand before it turns back', async () => {
    const engine = await rig.engine([{ contract: 'wav2lip_gan_96', bytes: tinyWav2lip() }]);
    const standing = media.path('standing.mp4');
    const { video } = await media.media.probe(clip, 'video', media.signal);
    if (!video) throw new Error('no video');
    const { width, height, color, frameRate } = video;
    const writer = await media.media.openWriter({
      path: standing,
      width,
      height,
      color,
      frameRate,
      signal: media.signal,
    });
    const [first, middle, last] = [0, 15, 29];
    const frames = await media.frames(clip);
    for (const [i, at] of [first, middle, last].entries())
      await writer.write({ ...(frames[at] as VideoFrame), ptsUs: i * 40_000 });
    await writer.finish(400_000);
    const audio = await wav(sound.slice(0, 9_600));
    const { outputPath } = await render(engine, 'lip-sync', { video: standing, audio });
    const shown = await media.frames(outputPath);
    expect(shown.map(({ ptsUs }) => Math.round(ptsUs / 40_000))).toEqual(shown.map((_, i) => i));
    // Identifies each frame by its upper quarter.
    const upper = ({ data, width, height }: VideoFrame) => data.subarray(0, (width * height) / 4);
    const apart = (a: VideoFrame, b: VideoFrame) => {
      const other = upper(b);
      return upper(a).reduce((sum, value, i) => sum + Math.abs(value - (other[i] as number)), 0);
    };
    const named = shown.map((frame) => {
      const distances = [first, middle, last].map((at) => apart(frame, frames[at] as VideoFrame));
      return distances.indexOf(Math.min(...distances));
    });
    expect(named).toEqual([0, 1, ...Array(8).fill(2), 1, 0, 1, 2, 2]);
  });

  it('restores what was drawn, and only that, when there is an enhancer', async () => {
    const engine = await rig.engine([
      { contract: 'wav2lip_96', bytes: tinyWav2lip() },
      { contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 0, 0.2), options: { blend: 1 } },
    ]);
    const { outputPath, details } = await render(engine, 'lip-sync', {
      video: clip,
      audio: await wav(sound.slice(0, 3_200)),
    });
    expect(details).toMatchObject({ frames: 5, enhancer: 'onnx gfpgan_1.4' });
    const [was, is] = [
      (await media.frames(clip)).map(toRgb)[2],
      (await media.frames(outputPath)).map(toRgb)[2],
    ];
    expect(Math.abs(mean(is as Picture, MOUTH, 0) - 153)).toBeLessThan(3);
    expect(Math.abs(mean(is as Picture, EYES, 0) - mean(was as Picture, EYES, 0))).toBeLessThan(1.5);
  });

  it('refuses what it cannot use', async () => {
    const engine = await rig.engine([{ contract: 'wav2lip_96', bytes: tinyWav2lip(1) }]);
    const audio = await wav(sound.slice(0, 3_200));
    await expect(render(engine, 'lip-sync', { video: clip, audio: rig.image })).rejects.toMatchObject({
      code: 'unsupported_format',
    });
    await expect(render(engine, 'lip-sync', { video: clip })).rejects.toMatchObject({
      code: 'processing_failed',
    });
    const blank = await media.make(
      'blank2.mp4',
      '-f lavfi -i color=c=0x4488aa:size=160x120:rate=10:duration=1',
    );
    await expect(render(engine, 'lip-sync', { video: blank, audio })).rejects.toMatchObject({
      code: 'face_not_detected',
    });
  });
});
