/** @module-tag ffmpeg */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { ADMIRAL } from '@semblance/testkit/engine-builtin/swap-rig';
import { makeClip, readPicture, type Scene } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import { tinyArcface, tinySwapper } from '@semblance/testkit/engine-onnx/tiny-models';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { afterAll, beforeAll, expect, it } from 'vitest';

const DEMO = join(dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')), '..', 'demo');

const rig = useOnnxRig();
let media: MediaRig;
beforeAll(async () => {
  media = await openMediaRig();
});
afterAll(() => media.close());

it('Video Swap through the models knows a person again after a cut, and leaves alone the one beside her', async () => {
  const [group, admiral] = [await readPicture(join(DEMO, 'sample6.jpg')), await readPicture(ADMIRAL)];
  const uniform: Scene = { picture: admiral, frames: 2, view: () => ({ x: 250, y: 480, zoom: 2.2 }) };
  // The views show the woman on the right alone, both women, and the other woman alone.
  const views = [
    { x: 1660, y: 455, zoom: 0.9 },
    { x: 1420, y: 480, zoom: 0.8 },
    { x: 1200, y: 510, zoom: 1.1 },
  ];
  const scenes = views.flatMap((view): Scene[] => {
    return [{ picture: group, frames: 4, view: (i) => ({ ...view, x: view.x + i }) }, uniform];
  });
  const video = media.path('people.mp4');
  await makeClip(media.media, { path: video, width: 480, height: 360, scenes });
  const engine = await rig.engine([
    { contract: 'arcface_w600k_r50', bytes: tinyArcface() },
    { contract: 'hyperswap_1a_256', bytes: tinySwapper({ size: 256, batch: 'n' }) },
  ]);
  const { details } = await engine.render({
    capability: 'face-swap',
    inputs: { video, face: rig.face },
    parameters: {},
    outputDir: await rig.outputDir(),
    signal: new AbortController().signal,
    onProgress: () => undefined,
  });
  // Nobody is swapped in the last shot, because she is not in it.
  expect(details).toMatchObject({ faces: 1, frames: 18, frames_with_swap: 8 });
});
