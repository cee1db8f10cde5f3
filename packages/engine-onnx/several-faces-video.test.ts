/** @module-tag ffmpeg */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Engine } from '@semblance/engine-api/engine';
import { createBuiltinEngine } from '@semblance/engine-builtin';
import type { VideoFrame } from '@semblance/media/types';
import { regionToRgb } from '@semblance/media/yuv';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import { tinyArcface, tinySwapper } from '@semblance/testkit/engine-onnx/tiny-models';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import sharp from 'sharp';
import { afterAll, beforeAll, expect, it } from 'vitest';

/** Several pictures of one person in Video Swap. */
const rig = useOnnxRig();
const arcface: GivenModel = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };
const swapper: GivenModel = { contract: 'inswapper_128', bytes: tinySwapper(), options: { match: 0 } };
const FRAMES = 10;
let media: MediaRig;
let clip: string;
let tinted: string;
let small: string;

beforeAll(async () => {
  media = await openMediaRig();
  clip = media.path('clip.mp4');
  await promisify(execFile)('ffmpeg', [
    ...['-v', 'error', '-loop', '1', '-i', rig.image, '-t', String(FRAMES / 25), '-r', '25'],
    ...['-vf', 'scale=512:512,format=yuv420p', '-c:v', 'libx264', '-crf', '8', clip],
  ]);
  const change = sharp(rig.face).modulate({ brightness: 0.8, hue: 12 });
  tinted = await rig.file('face.png', change.png().toBuffer());
  small = await rig.file('small.png', sharp(rig.face).resize(120).png().toBuffer());
});
afterAll(() => media.close());

async function swap(engine: Engine, faces: Record<string, string>) {
  const result = await engine.render({
    capability: 'face-swap',
    inputs: { video: clip, ...faces },
    parameters: {},
    outputDir: await rig.outputDir(),
    signal: new AbortController().signal,
    onProgress: () => undefined,
  });
  const frames = await media.frames(result.outputPath);
  return { ...result, frames, colours: frames.map(colour) };
}

/** Returns the mean colour of the swapped face, which the tiny swapper makes of the identity. */
function colour(frame: VideoFrame): number[] {
  const { width, height } = frame;
  const { data } = regionToRgb(frame, { x: 0, y: 0, width, height }, { range: 'tv', space: 'bt709' });
  const sums = [0, 0, 0];
  let count = 0;
  for (let y = 270; y < 350; y += 3)
    for (let x = 215; x < 300; x += 3, count++)
      for (const c of [0, 1, 2]) sums[c] = (sums[c] as number) + (data[(y * width + x) * 3 + c] as number);
  return sums.map((sum) => sum / count);
}
const middle = (colours: readonly number[][]) => colours[FRAMES / 2] ?? [];
const apart = (a: readonly number[], b: readonly number[]) =>
  Math.max(...a.map((value, i) => Math.abs(value - (b[i] as number))));

it('gives every frame the averaged identity, where a model swaps', async () => {
  const engine = await rig.engine([arcface, swapper]);
  expect(engine.capabilities.find(({ capability }) => capability === 'face-swap')?.severalFaces).toBe(true);
  const [one, other, both, twice] = [
    await swap(engine, { face: rig.face }),
    await swap(engine, { face: tinted }),
    await swap(engine, { face: rig.face, face_2: tinted }),
    await swap(engine, { face: rig.face, face_2: rig.face }),
  ];
  expect(both.frames).toHaveLength(FRAMES);
  const [first, second] = [middle(one.colours), middle(other.colours)];
  expect(apart(first, second)).toBeGreaterThan(1);
  for (const each of both.colours) {
    expect(apart(each, first)).toBeGreaterThan(0.3);
    expect(apart(each, second)).toBeGreaterThan(0.3);
  }
  expect(apart(middle(twice.colours), first)).toBeLessThan(0.5);
  expect(both.details).toMatchObject({ face_pictures: 2 });
  expect(one.details).not.toHaveProperty('face_pictures');
  expect(both.findings?.hints.some(({ code }) => code === 'picture_chosen')).toBe(false);
  await expect(swap(engine, { face: rig.face, face_2: rig.image })).rejects.toMatchObject({
    message: 'Picture 2 of face_keys shows another person than the first.',
  });
});

it('takes the best picture where builtin swaps', async () => {
  const engine = createBuiltinEngine({ threads: 1 });
  await engine.warmUp(AbortSignal.timeout(60_000));
  const [chosen, alone] = [
    await swap(engine, { face: small, face_2: rig.face, face_3: small }),
    await swap(engine, { face: rig.face }),
  ];
  expect(chosen.findings?.hints[0]).toMatchObject({
    code: 'picture_chosen',
    message: 'Of the 3 pictures of face_keys, picture 2 is used: it shows the face best.',
  });
  expect(chosen.colours).toEqual(alone.colours);
  await expect(swap(engine, { face: rig.face, face_2: rig.image })).rejects.toMatchObject({
    message: 'Picture 2 of face_keys shows another person than the first.',
  });
  await engine.close();
});
