import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { promisify } from 'node:util';
import { EngineInterruptedError } from '@semblance/engine-api/engine';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { useOnnxRig } from '@semblance/testkit/engine-onnx/onnx-rig';
import {
  type FaceNetworks,
  openFaceNetworks,
  openPooledSwap,
  type PooledSwap,
} from '@semblance/testkit/engine-onnx/pooled-swap';
import {
  tinyArcface,
  tinyBisenet,
  tinyEnhancer,
  tinySwapper,
} from '@semblance/testkit/engine-onnx/tiny-models';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { openSession } from '@semblance/vision/models/session';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { StageLog } from '../stages/models.ts';
import { videoSwap } from '../video-swap.ts';
import { SwapThreads } from './swap-threads.ts';

const rig = useOnnxRig();
const dirs = new ModelDirRig();
let media: MediaRig;
let networks: FaceNetworks;
let clip: string;
const closing: (() => Promise<void>)[] = [];
beforeAll(async () => {
  media = await openMediaRig();
  networks = await openFaceNetworks();
  clip = media.path('clip.mp4');
  await promisify(execFile)('ffmpeg', [
    ...['-v', 'error', '-loop', '1', '-i', rig.image, '-t', '1', '-r', '25'],
    ...['-vf', "crop=480:480:x='min(32,20*t)':y=16,scale=320:320,format=yuv420p", '-c:v', 'libx264', clip],
  ]);
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});
afterAll(async () => {
  await dirs.close();
  await media.close();
});

const arcface: GivenModel = { contract: 'arcface_w600k_r50', bytes: tinyArcface() };
const hyperswap: GivenModel = {
  contract: 'hyperswap_1a_256',
  bytes: tinySwapper({ size: 256, batch: 'n' }),
};
const enhancer: GivenModel = { contract: 'gfpgan_1.4', bytes: tinyEnhancer(512, 0.9, 0.02) };
const parser: GivenModel = { contract: 'bisenet_resnet_34', bytes: tinyBisenet() };

async function open(models: readonly GivenModel[]): Promise<PooledSwap> {
  const swap = await openPooledSwap(dirs, models, networks);
  closing.push(() => swap.close());
  return swap;
}

function threadsOf({ share }: PooledSwap, count: number): SwapThreads {
  const threads = new SwapThreads(() => share.threadData(), count);
  closing.push(() => threads.close());
  return threads;
}

/** Swaps the clip. */
async function render(
  { swap }: PooledSwap,
  threads: SwapThreads,
  outputDir: string,
  more: { signal?: AbortSignal; onProgress?: (fraction: number) => void } = {},
) {
  const recogniser = async () => new FaceRecogniser(await openSession('faceres'));
  const parts = { swap, threads, finder: networks.finder, media: media.media, recogniser };
  return videoSwap(parts, {
    capability: 'face-swap',
    inputs: { video: clip, face: rig.face },
    parameters: {},
    outputDir,
    signal: new AbortController().signal,
    onProgress: () => undefined,
    ...more,
  });
}

it('gives the same frames whatever the number of threads, and all in order', async () => {
  const swap = await open([arcface, hyperswap, enhancer, parser]);
  const seen = [];
  for (const count of [1, 2]) {
    const threads = threadsOf(swap, count);
    const { outputPath, details } = await render(swap, threads, await rig.outputDir());
    expect(details).toMatchObject({
      frames: 25,
      frames_with_swap: 25,
      swapper: 'onnx hyperswap_1a_256',
      enhancer: 'onnx gfpgan_1.4',
      parser: 'onnx bisenet_resnet_34',
      cover: 'builtin face_cover',
    });
    seen.push(await media.frames(outputPath));
  }
  const [one = [], two = []] = seen;
  expect(one).toHaveLength(25);
  expect(two.map(({ ptsUs }) => ptsUs)).toEqual(one.map(({ ptsUs }) => ptsUs));
  for (const [i, frame] of one.entries())
    expect(Buffer.compare(frame.data, two[i]?.data ?? new Uint8Array()), `frame ${i}`).toBe(0);
});

it('a thread that dies interrupts the render, which may be tried again, and leaves nothing', async () => {
  const warned = vi.spyOn(console, 'warn').mockImplementation(() => {});
  const swap = await open([arcface, hyperswap]);
  let good = false;
  const threads = new SwapThreads(
    () => (good ? swap.share.threadData() : { value: { models: 'none' }, transfer: [] }),
    1,
  );
  closing.push(() => threads.close());
  const outputDir = await rig.outputDir();
  await expect(render(swap, threads, outputDir)).rejects.toBeInstanceOf(EngineInterruptedError);
  expect(await readdir(outputDir)).toEqual([]);
  expect(warned).toHaveBeenCalled();
  warned.mockRestore();
  good = true;
  expect((await render(swap, threads, outputDir)).details).toMatchObject({ frames_with_swap: 25 });
});

it('says which model gave no numbers, as an error of the render', async () => {
  const swap = await open([arcface, hyperswap, { ...enhancer, bytes: tinyEnhancer(512, 1, Number.NaN) }]);
  await expect(render(swap, threadsOf(swap, 1), await rig.outputDir())).rejects.toMatchObject({
    code: 'processing_failed',
    message: 'The model gfpgan_1.4 gave values that are not finite numbers.',
  });
});

it('ends when cancelled, and its threads go on to the next video', async () => {
  const swap = await open([arcface, hyperswap]);
  const threads = threadsOf(swap, 1);
  const abort = new AbortController();
  const outputDir = await rig.outputDir();
  const onProgress = (fraction: number): void => {
    if (fraction > 0.2) abort.abort(new Error('changed his mind'));
  };
  await expect(render(swap, threads, outputDir, { signal: abort.signal, onProgress })).rejects.toThrow(
    'changed his mind',
  );
  expect(await readdir(outputDir)).toEqual([]);
  expect((await render(swap, threads, outputDir)).details).toMatchObject({ frames_with_swap: 25 });
});

it('refuses a frame that its threads cannot see', async () => {
  const swap = await open([arcface, hyperswap]);
  const threads = threadsOf(swap, 1);
  const frame = { width: 2, height: 2, data: new Uint8Array(6) };
  await expect(threads.draw(1, frame, [], new StageLog())).rejects.toThrow('only this thread');
});
