import { existsSync } from 'node:fs';
import { PictureDecoder } from '@semblance/vision/image/decoder-process';
import sharp from 'sharp';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { PictureReader } from './picture-reader.ts';

const CAT = 'media/cat.jpg';
const small = () => sharp(CAT).resize(160, 120, { fit: 'cover' }).toColourspace('srgb');
const native = async (picture: Uint8Array) =>
  new Uint8Array(await sharp(picture).autoOrient().toColourspace('srgb').removeAlpha().raw().toBuffer());

let reader: PictureReader;
let starts: ReturnType<typeof vi.spyOn>;
beforeEach(() => {
  reader = new PictureReader();
  starts = vi.spyOn(PictureDecoder, 'start');
});
afterEach(async () => {
  await reader.close();
  vi.restoreAllMocks();
});

/** Returns the id of the first process that was started. */
async function pidOfProcess(): Promise<number> {
  const first = starts.mock.results[0] as { readonly value: Promise<PictureDecoder> };
  return (await first.value).pid;
}

describe('a picture of a stream', () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])('becomes upright, orientation %i', async (orientation) => {
    const picture = await small().withMetadata({ orientation }).jpeg().toBuffer();
    const { width, height, data, turned } = await reader.read(picture);
    expect([width, height, turned]).toEqual([
      ...(orientation > 4 ? [120, 160] : [160, 120]),
      orientation !== 1,
    ]);
    expect(Buffer.compare(data, await native(picture))).toBe(0);
    expect(starts).not.toHaveBeenCalled();
  });

  it('with the profile of sRGB, as Safari writes it, needs no process', async () => {
    const picture = await small().withIccProfile('srgb').jpeg().toBuffer();
    const { data } = await reader.read(picture);
    const expected = await native(picture);
    expect(Math.max(...data.map((level, i) => Math.abs(level - (expected[i] as number))))).toBeLessThan(4);
    expect(starts).not.toHaveBeenCalled();
  });

  it.each([
    ['of wide colours', () => small().withIccProfile('p3').jpeg()],
    ['for print', () => small().toColourspace('cmyk').jpeg()],
  ])('%s is decoded by a process behind the walls, which ends with the stream', async (_what, make) => {
    const picture = await make().toBuffer();
    for (let i = 0; i < 2; i++)
      expect(Buffer.compare((await reader.read(picture)).data, await native(picture))).toBe(0);
    expect(starts).toHaveBeenCalledOnce();
    const pid = await pidOfProcess();
    await reader.close();
    expect(existsSync(`/proc/${pid}/cmdline`)).toBe(false);
  });

  it('is read after one that its process cannot decode, or died of', async () => {
    const picture = await small().toColourspace('cmyk').jpeg().toBuffer();
    const frame = picture.subarray(0, picture.length / 2);
    await expect(reader.read(frame)).rejects.toMatchObject({ code: 'bad_frame' });
    await reader.read(picture);
    expect(starts).toHaveBeenCalledOnce();
    const pid = await pidOfProcess();
    process.kill(pid, 'SIGKILL');
    await expect(reader.read(picture)).rejects.toMatchObject({ code: 'engine_interrupted' });
    expect(await reader.read(picture)).toMatchObject({ width: 160, height: 120 });
  });

  it('may have stray bytes, as of cameras, but must have its end', async () => {
    const picture = await small().jpeg().toBuffer();
    const stray = Buffer.concat([picture.subarray(0, -2), Buffer.alloc(7), picture.subarray(-2)]);
    expect(Buffer.compare((await reader.read(stray)).data, await native(picture))).toBe(0);
    // The end of a picture within it, such as a thumbnail, is not its own.
    const thumbnail = Buffer.from([0xff, 0xe2, 0, 6, 0xff, 0xd8, 0xff, 0xd9]);
    const cut = Buffer.concat([picture.subarray(0, 2), thumbnail, picture.subarray(2, -2)]);
    await expect(reader.read(cut)).rejects.toMatchObject({ code: 'bad_frame' });
    await reader.read(Buffer.concat([cut, picture.subarray(-2)]));
  });
});
