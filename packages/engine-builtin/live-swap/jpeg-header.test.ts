import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readJpegHeader } from './jpeg-header.ts';
import { PictureReader } from './picture-reader.ts';
import { PICTURE_LIMITS } from './types.ts';

const plain = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: '#a98' } });

const reader = new PictureReader();
afterAll(() => reader.close());

let good: Buffer;
beforeAll(async () => {
  // Detailed content, so that a missing part is noticed.
  const noise = Buffer.from(Array.from({ length: 160 * 120 * 3 }, (_, i) => (i * 2654435761) >>> 24));
  good = await sharp(noise, { raw: { width: 160, height: 120, channels: 3 } })
    .jpeg()
    .toBuffer();
});

/** Returns a good picture whose header states another size. */
function claiming(width: number, height: number): Buffer {
  const bytes = Buffer.from(good);
  const frame = bytes.indexOf(Buffer.from([0xff, 0xc0]));
  bytes.writeUInt16BE(height, frame + 5);
  bytes.writeUInt16BE(width, frame + 7);
  return bytes;
}

describe('the header of a JPEG', () => {
  it.each([1, 3, 6, 8])('says its size and that it lies as orientation %i says', async (orientation) => {
    const picture = await plain(64, 48).withMetadata({ orientation }).jpeg().toBuffer();
    expect(readJpegHeader(picture)).toEqual({
      ...{ width: 64, height: 48, orientation, plain: true },
      scanAt: picture.indexOf(Buffer.from([0xff, 0xda])),
    });
    const upright = orientation > 4 ? { width: 48, height: 64 } : { width: 64, height: 48 };
    expect(await reader.read(picture)).toMatchObject({ ...upright, turned: orientation !== 1 });
  });

  it.each([
    [1280, 720],
    [720, 1280],
    [960, 960],
    [1, 1],
  ])('of %i × %i pixels is taken', async (width, height) => {
    const picture = await plain(width, height).jpeg().toBuffer();
    expect(await reader.read(picture)).toMatchObject({ width, height });
  });
});

describe('a picture is refused', () => {
  const refused = [
    ['nothing', () => Buffer.alloc(0), 'not a JPEG'],
    ['a PNG', () => plain(64, 48).png().toBuffer(), 'not a JPEG'],
    ['an SVG', () => Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'), 'not a JPEG'],
    ['three bytes of a JPEG', () => good.subarray(0, 3), 'damaged or cut off'],
    ['one cut off in its tables', () => good.subarray(0, 100), 'damaged or cut off'],
    ['one cut off in its pixels', () => good.subarray(0, good.length / 2), 'damaged or cut off'],
    ['one of zeros behind its header', () => Buffer.from(good).fill(0, 700), 'damaged or cut off'],
    ['1281 pixels across', () => plain(1281, 10).jpeg().toBuffer(), '1281 × 10 pixels; at most 1280 × 720'],
    ['too many pixels', () => plain(1280, 721).jpeg().toBuffer(), '1280 × 721 pixels'],
    ['one that says it is huge', () => claiming(65_500, 65_500), '65500 × 65500 pixels'],
    ['one that says it has no height', () => claiming(160, 0), 'damaged or cut off'],
    [
      'one with two sizes',
      () =>
        Buffer.concat([
          good.subarray(0, good.indexOf(Buffer.from([0xff, 0xda]))),
          claiming(8, 8).subarray(2),
        ]),
      'damaged or cut off',
    ],
    ['too many bytes', () => Buffer.concat([good, Buffer.alloc(PICTURE_LIMITS.bytes)]), 'larger than 2 MiB'],
    [
      'thousands of passes over it',
      () => {
        const scan = good.indexOf(Buffer.from([0xff, 0xda]));
        return Buffer.concat([good.subarray(0, -2), ...Array(2000).fill(good.subarray(scan, scan + 40))]);
      },
      'too many scans',
    ],
  ] as const;

  it.each(refused)('that is %s', async (_what, make, message) => {
    const picture = await make();
    await expect(reader.read(picture)).rejects.toMatchObject({
      name: 'LiveVideoError',
      code: 'bad_frame',
      message: expect.stringContaining(message),
    });
  });

  it('whatever byte of its header is broken, or is taken after all', async () => {
    const header = good.indexOf(Buffer.from([0xff, 0xda])) + 14;
    for (let at = 0; at < header; at += 7) {
      const broken = Buffer.from(good);
      broken[at] = (broken[at] as number) ^ 0xff;
      const done = await reader.read(broken).catch((error: unknown) => error);
      if (!(done instanceof Error)) continue;
      expect(done).toMatchObject({ code: 'bad_frame' });
    }
  });
});

it('grey and CMYK pictures are taken, as colour', async () => {
  for (const space of ['b-w', 'cmyk'] as const) {
    const picture = await plain(32, 32).toColourspace(space).jpeg().toBuffer();
    const { data, width, height } = await reader.read(picture);
    expect(data.length).toBe(width * height * 3);
  }
});
