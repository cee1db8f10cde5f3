/** @module-tag ffmpeg */
import { readFile, writeFile } from 'node:fs/promises';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isWebp, webpToApng } from './webp-clip.ts';

let rig: MediaRig;
beforeAll(async () => {
  rig = await openMediaRig();
});
afterAll(() => rig.close());

const frame = (level: number) => {
  const background = { r: level, g: 0, b: 255 - level, alpha: 1 };
  return sharp({ create: { width: 41, height: 31, channels: 4, background } })
    .png()
    .toBuffer();
};

async function animation(name: string, frames: number, delay: number[]): Promise<string> {
  const path = rig.path(name);
  const levels = Array.from({ length: frames }, (_, i) => Math.round((255 * i) / frames));
  await sharp(await Promise.all(levels.map(frame)), { join: { animated: true } })
    .webp({ lossless: true, delay })
    .toFile(path);
  return path;
}

describe('an animated WebP', () => {
  it('becomes a PNG that has all its pixels and times', async () => {
    const path = await animation('moving.webp', 4, [100, 250, 10, 400]);
    expect(await isWebp(path)).toBe(true);
    const to = rig.path('moving.apng');
    await webpToApng(path, to, rig.signal);
    const info = await rig.media.probe(to, 'video', rig.signal);
    // Browsers show a frame of 10 ms for 100 ms.
    expect(info).toMatchObject({ durationSec: 0.85, video: { frameCount: 4 } });
    const frames = await rig.frames(to);
    expect(frames.map(({ ptsUs }) => ptsUs)).toEqual([0, 100_000, 350_000, 450_000]);
    expect(new Set(frames.map(({ data }) => data[0])).size).toBe(4);
    // The first frame is what a reader of still PNG sees.
    const still = await sharp(to).raw().toBuffer({ resolveWithObject: true });
    expect([still.info.width, still.info.height, ...still.data.subarray(0, 3)]).toEqual([41, 31, 0, 0, 255]);
  });

  it.each([
    ['cut off', (file: Buffer) => file.subarray(0, file.length - 300)],
    [
      'with noise in it',
      (file: Buffer) => Buffer.concat([file.subarray(0, 120), Buffer.alloc(file.length, 0x77)]),
    ],
  ])('%s is refused', async (what, damage) => {
    const path = await animation('whole.webp', 6, [100]);
    const damaged = rig.path(`${what}.webp`);
    await writeFile(damaged, damage(await readFile(path)));
    await expect(webpToApng(damaged, `${damaged}.apng`, rig.signal)).rejects.toMatchObject({
      code: 'unsupported_format',
    });
  });

  it('that is still is refused', async () => {
    const path = rig.path('still.webp');
    await sharp('media/cat.jpg').webp().toFile(path);
    await expect(webpToApng(path, rig.path('still.apng'), rig.signal)).rejects.toMatchObject({
      message: expect.stringContaining('still picture'),
    });
  });

  it('stops when the work is over', async () => {
    const path = await animation('stopped.webp', 4, [100]);
    const over = AbortSignal.abort(new Error('cancelled'));
    await expect(webpToApng(path, rig.path('stopped.apng'), over)).rejects.toThrow('cancelled');
  });
});
