/** @module-tag ffmpeg */
import { writeFile } from 'node:fs/promises';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let rig: MediaRig;
beforeAll(async () => {
  rig = await openMediaRig();
});
afterAll(() => rig.close());

/** Frames of one colour each: grey levels far apart. */
const LEVELS = [20, 90, 160, 230];
const pages = (size = { width: 40, height: 30 }) =>
  Promise.all(
    LEVELS.map((level) => {
      const create = { ...size, channels: 3 as const, background: { r: level, g: level, b: level } };
      return sharp({ create }).png().toBuffer();
    }),
  );

async function lumaOf(file: string): Promise<{ levels: number[]; times: number[] }> {
  const frames = await rig.frames(file);
  return { levels: frames.map(({ data }) => data[0] as number), times: frames.map(({ ptsUs }) => ptsUs) };
}

const limited = (level: number) => Math.round(16 + (level * 219) / 255);
const near = (level: number) => [limited(level) - 1, limited(level), limited(level) + 1];

describe('an animated picture', () => {
  it('as GIF is a clip with its own times', async () => {
    const file = rig.path('moving.gif');
    await sharp(await pages(), { join: { animated: true } })
      .gif({ delay: [100, 200, 50, 400], loop: 0 })
      .toFile(file);
    const info = await rig.media.probe(file, 'video', rig.signal);
    expect(info).toMatchObject({ durationSec: 0.75, video: { width: 40, height: 30, frameCount: 4 } });
    const { levels, times } = await lumaOf(file);
    for (const [i, level] of LEVELS.entries()) expect(near(level)).toContain(levels[i]);
    expect(times).toEqual([0, 100_000, 300_000, 350_000]);
  });

  it('without times is shown as browsers show it', async () => {
    const file = rig.path('fast.gif');
    await sharp(await pages(), { join: { animated: true } })
      .gif({ delay: [0, 0, 0, 0] })
      .toFile(file);
    expect((await rig.media.probe(file, 'video', rig.signal)).durationSec).toBeCloseTo(0.4);
  });

  it('that is transparent is shown over white', async () => {
    const side = 16;
    const hole = Buffer.alloc(side * side * 4, 0);
    const ink = Buffer.alloc(side * side * 4, 0);
    for (let i = 0; i < side * side; i++) ink.set([10, 10, 10, i < (side * side) / 2 ? 255 : 0], i * 4);
    const raw = { width: side, height: side, channels: 4 as const };
    const png = (data: Buffer) => sharp(data, { raw }).png().toBuffer();
    const file = rig.path('hole.gif');
    await sharp([await png(ink), await png(hole)], { join: { animated: true } })
      .gif({ delay: [100, 100] })
      .toFile(file);
    const [first] = await rig.frames(file);
    const row = (y: number) => first?.data[y * side] as number;
    expect(row(2)).toBeLessThan(40);
    expect(row(side - 2)).toBeGreaterThan(230);
  });

  it('as PNG is a clip, of odd sides too', async () => {
    const file = await rig.make(
      'moving.png',
      '-f lavfi -i testsrc2=size=80x60:rate=10:duration=0.5 -vf crop=41:31 -pix_fmt rgba -f apng -plays 0',
    );
    const info = await rig.media.probe(file, 'video', rig.signal);
    expect(info.video).toMatchObject({ frameCount: 5, codec: 'apng' });
    expect(info.durationSec).toBeCloseTo(0.5);
    expect(await rig.frames(file)).toHaveLength(5);
  });

  it('goes through the encoder with its times', async () => {
    const file = rig.path('copied.gif');
    await sharp(await pages({ width: 64, height: 48 }), { join: { animated: true } })
      .gif({ delay: [100, 200, 50, 400] })
      .toFile(file);
    const { written } = await rig.copy(file, rig.path('copied.mp4'));
    expect(written.durationMs).toBe(750);
    expect((await lumaOf(rig.path('copied.mp4'))).times).toEqual([0, 100_000, 300_000, 350_000]);
  });

  it.each(['png', 'webp', 'jpeg'] as const)('that is a still %s is no clip', async (format) => {
    const file = rig.path(`still.${format}`);
    await sharp('media/cat.jpg').toFormat(format).toFile(file);
    await expect(rig.media.probe(file, 'video', rig.signal)).rejects.toMatchObject({
      code: 'unsupported_format',
    });
  });

  it('that is cut off keeps what it has, or is refused', async () => {
    const file = rig.path('cut.gif');
    const whole = await sharp(await pages(), { join: { animated: true } })
      .gif()
      .toBuffer();
    for (const length of [6, 12, 40]) {
      await writeFile(file, whole.subarray(0, length));
      await expect(rig.frames(file)).rejects.toMatchObject({ code: 'unsupported_format' });
    }
  });
});
