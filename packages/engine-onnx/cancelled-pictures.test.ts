import { raceAbort } from '@semblance/common/async/abort';
import type { RenderRequest } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import type * as PictureFile from '@semblance/vision/image/picture-file';
import type { BasePicture } from '@semblance/vision/image/picture-file';
import { expect, it, vi } from 'vitest';
import { motionTransfer } from './motion-transfer.ts';
import { photoSwap } from './photo-swap.ts';
import { videoSwap } from './video-swap.ts';

const { base, picture, stuck } = vi.hoisted(() => {
  const picture: Picture = { width: 1, height: 1, channels: 3, data: new Uint8Array(3) };
  const base: BasePicture = { picture, format: 'webp', lossless: true, profile: undefined };
  return { base, picture, stuck: () => new Promise<never>(() => {}) };
});

/** Pictures whose decoding or encoding never ends, as seen by a cancel. */
vi.mock('@semblance/vision/image/picture-file', async (original) => ({
  ...(await original<typeof PictureFile>()),
  readFace: async (path: string) => (path === 'stuck' ? stuck() : picture),
  readShown: async (path: string) => (path === 'stuck' ? stuck() : picture),
  readBase: async (path: string) => (path === 'stuck' ? stuck() : base),
  encodeBase: stuck,
}));
vi.mock('@semblance/engine-builtin/first-look/samples', () => ({
  sampleFaces: async () => ({ shown: true, left: [] }),
}));

const swap = {
  places: { look: async () => ({ faces: [{}], left: [] }) },
  identify: async () => ({ face: {} }),
  findTargets: async () => ({ faces: [{}], left: [] }),
  swapFaces: async () => [],
};
const media = { probe: async () => ({ video: { width: 64, height: 64, frameRate: 25 } }) };
const models = { need: () => ({ options: {} }) };
const parts = { swap, media, models, finder: {} };

it.each<[string, Record<string, string>, string, (request: RenderRequest) => Promise<unknown>]>([
  ['the face of a Photo Swap', { face: 'stuck', image: 'i' }, 'decode', (r) => photoSwap(swap as never, r)],
  ['the base of a Photo Swap', { face: 'f', image: 'stuck' }, 'decode', (r) => photoSwap(swap as never, r)],
  ['what a Photo Swap made', { face: 'f', image: 'i' }, 'encode', (r) => photoSwap(swap as never, r)],
  ['the face of a Video Swap', { face: 'stuck', video: 'v' }, 'face', (r) => videoSwap(parts as never, r)],
  [
    'the still of a Motion Transfer',
    { image: 'stuck', motion_video: 'v' },
    'portrait',
    (r) => motionTransfer(parts as never, r),
  ],
])('a cancelled render does not wait for %s', async (_what, inputs, stage, render) => {
  const controller = new AbortController();
  const seen: string[] = [];
  const done = render({
    capability: 'face-swap-image',
    inputs,
    parameters: {},
    outputDir: '/nowhere',
    signal: controller.signal,
    onProgress: (_fraction, name) => seen.push(name),
  });
  done.catch(() => undefined);
  await expect.poll(() => seen.at(-1)).toBe(stage);
  controller.abort(new Error('enough'));
  await expect(done).rejects.toThrow('enough');
});

it('work that is waited for until a cancel is itself otherwise, and its late failure is nobody’s', async () => {
  const { signal } = new AbortController();
  expect(await raceAbort(signal, Promise.resolve(7))).toBe(7);
  await expect(raceAbort(signal, Promise.reject(new Error('damaged')))).rejects.toThrow('damaged');
  const late = Promise.withResolvers<never>();
  const waiting = raceAbort(AbortSignal.abort(new Error('enough')), late.promise);
  late.reject(new Error('of no interest'));
  await expect(waiting).rejects.toThrow('enough');
});
