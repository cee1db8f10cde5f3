/** @module-tag ffmpeg */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { bytesInUse } from '@semblance/testkit/live/memory';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ColorTags, WriterOptions } from './types.ts';

const COLOR: ColorTags = { range: 'tv', space: 'bt709', primaries: 'bt709', transfer: 'bt709' };
let rig: MediaRig;
let dir: string;
let nth = 0;
beforeAll(async () => {
  rig = await openMediaRig();
});
afterAll(() => rig.close());
beforeEach(async () => {
  dir = rig.path(`out-${++nth}`);
  await mkdir(dir);
});

const options = (more: Partial<WriterOptions> = {}): WriterOptions => ({
  path: `${dir}/output.mp4`,
  width: 64,
  height: 48,
  color: COLOR,
  frameRate: 25,
  signal: rig.signal,
  ...more,
});
const picture = (luma: number, width = 64, height = 48) =>
  new Uint8Array((width * height * 3) / 2).fill(luma);
/** Returns whether any process has `text` among its arguments. */
async function running(text: string): Promise<boolean> {
  const { stdout } = await promisify(execFile)('ps', ['-eo', 'args']);
  return stdout.split('\n').some((line) => line.includes(text) && !line.includes('ps -eo'));
}
const gone = (text: string) => expect.poll(() => running(text)).toBe(false);

describe('a writer', () => {
  it('gives the last frame the length asked for, to the millisecond', async () => {
    const writer = await rig.media.openWriter(options());
    for (const [i, ptsUs] of [0, 40_000, 97_000, 100_000].entries())
      await writer.write({ ptsUs, data: picture(50 + i) });
    expect(await writer.finish(1_234_567)).toMatchObject({ frames: 4, durationMs: 1235 });
    expect(await rig.media.measure(`${dir}/output.mp4`, rig.signal)).toMatchObject({
      frames: 4,
      durationMs: 1235,
    });
    const { frames } = await rig.ffprobe(`${dir}/output.mp4`, '-show_frames', '-select_streams', 'v');
    expect(frames.map((frame) => Number(frame.pts_time))).toEqual([0, 0.04, 0.097, 0.1]);
    const { format } = await rig.ffprobe(`${dir}/output.mp4`, '-show_format');
    expect(Number(format.duration)).toBeCloseTo(1.235, 2);
  });

  it('leaves one file only, and none before it is whole', async () => {
    const writer = await rig.media.openWriter(options());
    await writer.write({ ptsUs: 0, data: picture(90) });
    expect((await readdir(dir)).filter((name) => !name.startsWith('.'))).toEqual([]);
    await writer.finish(40_000);
    expect(await readdir(dir)).toEqual(['output.mp4']);
    // The index precedes the pictures, so playback can begin with the first bytes.
    const bytes = await readFile(`${dir}/output.mp4`);
    expect(bytes.indexOf('moov')).toBeLessThan(bytes.indexOf('mdat'));
  });

  it('lets the caller use its buffer again', async () => {
    const writer = await rig.media.openWriter(options());
    const data = picture(0);
    for (let i = 0; i < 30; i++) {
      data.fill(20 + 6 * i);
      await writer.write({ ptsUs: i * 40_000, data });
    }
    await writer.finish(1_200_000);
    const frames = await rig.frames(`${dir}/output.mp4`);
    for (const [i, frame] of frames.entries())
      expect(Math.abs((frame.data[70] ?? 0) - 20 - 6 * i)).toBeLessThanOrEqual(4);
  });

  it('makes its caller wait for the encoder', async () => {
    const writer = await rig.media.openWriter(options({ width: 640, height: 480 }));
    const before = await bytesInUse();
    for (let i = 0; i < 200; i++) await writer.write({ ptsUs: i * 40_000, data: picture(i, 640, 480) });
    const held = (await bytesInUse()) - before;
    await writer.abort();
    // 200 frames are 88 MiB.
    expect(held).toBeLessThan(20 << 20);
  });

  it.each([
    ['of another size', [{ ptsUs: 0, data: picture(1, 32, 32) }]],
    [
      'that goes back in time',
      [
        { ptsUs: 10, data: picture(1) },
        { ptsUs: 10, data: picture(1) },
      ],
    ],
    ['without a time', [{ ptsUs: Number.NaN, data: picture(1) }]],
  ])('refuses a frame %s', async (_what, frames) => {
    const writer = await rig.media.openWriter(options());
    const writing = async () => {
      for (const frame of frames) await writer.write(frame);
    };
    await expect(writing()).rejects.toThrow(RangeError);
    await writer.abort();
  });

  it('leaves nothing when it is aborted', async () => {
    const writer = await rig.media.openWriter(options());
    await writer.write({ ptsUs: 0, data: picture(90) });
    await writer.abort();
    expect(await readdir(dir)).toEqual([]);
    await gone(dir);
    await expect(writer.write({ ptsUs: 40_000, data: picture(90) })).rejects.toThrow('closed');
    await writer.abort();
  });

  it.each(['while frames are written', 'while it finishes'])(
    'leaves nothing when its signal is aborted %s',
    async (when) => {
      const controller = new AbortController();
      const reason = new Error('cancelled');
      const writer = await rig.media.openWriter(
        options({ width: 640, height: 480, signal: controller.signal }),
      );
      const working = (async () => {
        for (let i = 0; when !== 'while it finishes' || i < 20; i++) {
          await writer.write({ ptsUs: i * 40_000, data: picture(i, 640, 480) });
          if (i === 10 && when !== 'while it finishes') controller.abort(reason);
        }
        setTimeout(() => controller.abort(reason), 50);
        await writer.finish(10_000_000);
      })();
      await expect(working).rejects.toBe(reason);
      await writer.abort();
      expect(await readdir(dir)).toEqual([]);
      await gone(dir);
    },
  );

  it('leaves nothing where its folder cannot be written', async () => {
    const writer = await rig.media.openWriter(options({ path: `${dir}/missing/output.mp4` }));
    const writing = async () => {
      for (let i = 0; i < 50; i++) await writer.write({ ptsUs: i * 40_000, data: picture(i) });
      await writer.finish(2_000_000);
    };
    await expect(writing()).rejects.toMatchObject({ code: 'processing_failed' });
    await writer.abort();
    expect(await readdir(dir)).toEqual([]);
  });

  it('says so when its encoder is killed', async () => {
    const writer = await rig.media.openWriter(options());
    await writer.write({ ptsUs: 0, data: picture(9) });
    const { stdout } = await promisify(execFile)('ps', ['-eo', 'pid,args']);
    const pid = stdout.split('\n').find((line) => line.includes(`file:${dir}`) && line.includes('libx264'));
    process.kill(Number(pid?.trim().split(' ')[0]), 'SIGKILL');
    const writing = async () => {
      for (let i = 1; i < 5_000; i++) await writer.write({ ptsUs: i * 40_000, data: picture(i) });
    };
    await expect(writing()).rejects.toMatchObject({ code: 'engine_interrupted', retryable: true });
    await writer.abort();
    expect(await readdir(dir)).toEqual([]);
  });
});

describe('when our process is killed', () => {
  it('its encoders and decoders end, and their files are removed', async () => {
    const clip = await rig.make('endless.mkv', '-f lavfi -i "testsrc2=s=320x240:r=25:d=20" -c:v mpeg4');
    const script = `
      import { createMedia, findMediaTools } from ${JSON.stringify(new URL('./media.ts', import.meta.url).href)};
      const media = createMedia({ tools: await findMediaTools() });
      const { signal } = new AbortController();
      const color = ${JSON.stringify(COLOR)};
      const writer = await media.openWriter({ path: ${JSON.stringify(`${dir}/output.mp4`)}, width: 320, height: 240, color, frameRate: 25, signal });
      const info = await media.probe(${JSON.stringify(clip)}, 'video', signal);
      let n = 0;
      for await (const frame of media.decodeVideo(${JSON.stringify(clip)}, info, { signal })) {
        await writer.write(frame);
        if (++n === 20) process.stdout.write('running');
        if (n > 20) await new Promise((resolve) => setTimeout(resolve, 20));
      }`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(child.stdout, 'data');
    expect(await running(clip)).toBe(true);
    expect((await readdir(dir)).length).toBeGreaterThan(0);
    child.kill('SIGKILL');
    await gone(clip);
    await gone(dir);
    await expect.poll(() => readdir(dir)).toEqual([]);
  });
});
