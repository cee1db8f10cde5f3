/** @module-tag ffmpeg */
import type { Media } from '@semblance/media/types';
import { ADMIRAL } from '@semblance/testkit/engine-builtin/swap-rig';
import { type MediaRig, numberedFrames, openMediaRig } from '@semblance/testkit/media/clips';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { videoSwap } from '../video-swap/video-swap.ts';
import { sampleFaces, samplesShow } from './samples.ts';

let rig: MediaRig;
let finder: FaceFinder;
beforeAll(async () => {
  rig = await openMediaRig();
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  finder = new FaceFinder({ blazeface, facemesh });
});
afterAll(() => rig.close());

const checkpoint = () => rig.signal.throwIfAborted();
const tools = () => ({ media: rig.media, signal: rig.signal, checkpoint });
const probed = async (path: string) => ({ path, info: await rig.media.probe(path, 'video', rig.signal) });

const NOBODY = 'mandelbrot=s=320x240:r=10';
/** The admiral's portrait in a part of an otherwise empty minute. */
const between = (from: number, to: number, more: string) =>
  `-f lavfi -i ${NOBODY} -loop 1 -i "${ADMIRAL}" -filter_complex ` +
  `"[1]scale=320:240[face];[0][face]overlay=enable='between(t,${from},${to})'" -t 60 -c:v libx264 ${more}`;

/** Returns the times of the frames that are looked at, in seconds, and what comes of it when none shows anything. */
async function looked(path: string) {
  const seconds: number[] = [];
  const shown = await samplesShow(await probed(path), tools(), async ({ ptsUs }) => {
    seconds.push(ptsUs / 1e6);
    return false;
  });
  return { shown, seconds };
}

describe('samples', () => {
  it('are key frames, a twelfth of the video or 5 s apart', async () => {
    const frames = (frames: number, more: string) =>
      rig.make(
        `${frames}${more.length}.mp4`,
        `${numberedFrames({ frames, rate: '2' })} -c:v libx264 -qp 5 ${more}`,
      );
    const minute = await looked(await frames(120, '-g 2 -sc_threshold 0'));
    expect(minute).toEqual({ shown: false, seconds: Array.from({ length: 12 }, (_, i) => 5 * i) });
    const short = await looked(await frames(24, '-g 1'));
    expect(short).toEqual({ shown: false, seconds: Array.from({ length: 12 }, (_, i) => i) });
  });

  it('are any frames, where key frames lie far apart', async () => {
    const path = await rig.make(
      'one-key-frame.mp4',
      `${numberedFrames({ frames: 120, rate: '2' })} -c:v libx264 -qp 5 -g 1000 -sc_threshold 0`,
    );
    const whole = Array.from({ length: 12 }, (_, i) => 5 * i);
    expect(await looked(path)).toEqual({ shown: false, seconds: [0, ...whole] });
  });

  it('end with the first that shows something', async () => {
    const path = await rig.make(
      'found.mp4',
      `${numberedFrames({ frames: 120, rate: '2' })} -c:v libx264 -qp 5 -g 2 -sc_threshold 0`,
    );
    let count = 0;
    const shows = async () => ++count === 3;
    expect(await samplesShow(await probed(path), tools(), shows)).toBe(true);
    expect(count).toBe(3);
  });

  it('are not taken of a video that is short', async () => {
    const path = await rig.make('short.mp4', `-f lavfi -i ${NOBODY} -t 4 -c:v libx264`);
    expect(await looked(path)).toEqual({ shown: true, seconds: [] });
  });
});

describe('a minute of video', () => {
  const shows = async (path: string) => (await sampleFaces(await probed(path), { ...tools(), finder })).shown;

  it('without a face shows none', async () => {
    expect(await shows(await rig.make('nobody.mp4', `-f lavfi -i ${NOBODY} -t 60 -c:v libx264`))).toBe(false);
  });

  it.each([
    ['a shot of a second', between(31, 32, '-g 250')],
    ['the last seconds', between(50, 60, '-g 250')],
    ['between key frames that lie far apart', between(20, 40, '-g 10000 -sc_threshold 0')],
  ])('with a face in %s shows it', async (name, args) => {
    expect(await shows(await rig.make(`${name.length}.mp4`, args))).toBe(true);
  });

  it('without a face is refused before anything is rendered', async () => {
    const video = await rig.make('refused.mp4', `-f lavfi -i ${NOBODY} -t 60 -c:v libx264 -g 50`);
    let decoded = 0;
    const media: Media = {
      ...rig.media,
      openWriter: () => Promise.reject(new Error('nothing is written')),
      async *decodeVideo(path, info, options) {
        for await (const frame of rig.media.decodeVideo(path, info, options)) {
          decoded++;
          yield frame;
        }
      },
    };
    const swap = videoSwap({ video, face: ADMIRAL, outputDir: rig.dir }, media, {
      finder,
      signal: rig.signal,
      checkpoint,
      onProgress: () => undefined,
    });
    await expect(swap).rejects.toMatchObject({ code: 'face_not_detected' });
    expect(decoded).toBeLessThanOrEqual(12);
  });
});
