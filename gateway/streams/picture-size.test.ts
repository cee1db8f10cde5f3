import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { PICTURE_SIZES } from './picture-size.ts';

const picture = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: { r: 90, g: 120, b: 60 } } });

const ENCODED: [string, string, () => Promise<Buffer>][] = [
  ['jpeg', 'baseline', () => picture(640, 480).jpeg().toBuffer()],
  ['jpeg', 'progressive', () => picture(640, 480).jpeg({ progressive: true }).toBuffer()],
  [
    'jpeg',
    'with Exif, profile and XMP before the frame',
    () =>
      picture(640, 480)
        .withExif({ IFD0: { Copyright: 'x'.repeat(60_000) } })
        .withIccProfile('p3')
        .jpeg()
        .toBuffer(),
  ],
  ['png', '', () => picture(640, 480).png().toBuffer()],
  ['webp', 'lossy', () => picture(640, 480).webp().toBuffer()],
  ['webp', 'lossless', () => picture(640, 480).webp({ lossless: true }).toBuffer()],
  ['webp', 'extended', () => picture(640, 480).withIccProfile('p3').webp().toBuffer()],
];

describe.each(ENCODED)('%s %s', (codec, _name, encode) => {
  const sizeOf = PICTURE_SIZES[codec] as (data: Buffer) => unknown;

  it('the size is read', async () => {
    expect(sizeOf(await encode())).toEqual({ width: 640, height: 480 });
  });

  it('cut off anywhere it has its size or none, and of others it has none', async () => {
    const data = await encode();
    for (let length = 0; length < Math.min(data.length, 2_000); length++) {
      const size = sizeOf(data.subarray(0, length));
      if (size !== undefined) expect(size).toEqual({ width: 640, height: 480 });
    }
    expect(sizeOf(data.subarray(0, 20))).toBeUndefined();
    for (const [other, , encodeOther] of ENCODED)
      if (other !== codec) expect(sizeOf(await encodeOther())).toBeUndefined();
  });
});

describe('a JPEG', () => {
  const sizeOf = PICTURE_SIZES.jpeg as (data: Buffer) => unknown;
  const frame = (width: number, height: number) => {
    const segment = Buffer.from([0xff, 0xc0, 0, 11, 8, 0, 0, 0, 0, 1, 1, 0x11, 0]);
    segment.writeUInt16BE(height, 5);
    segment.writeUInt16BE(width, 7);
    return segment;
  };
  const jpegOf = (...parts: Buffer[]) => Buffer.concat([Buffer.from([0xff, 0xd8]), ...parts]);

  it.each([
    ['its first bytes alone', jpegOf(Buffer.from([0xff, 0xe0]), Buffer.alloc(100, 7))],
    ['no frame before the pixels', jpegOf(Buffer.from([0xff, 0xda, 0, 4, 0, 0]), frame(640, 480))],
    ['no pixels', jpegOf(frame(640, 0))],
    ['nothing but fill bytes', jpegOf(Buffer.alloc(2_000_000, 0xff))],
    ['nothing but segments without content', jpegOf(...Array(9).fill(Buffer.from([0xff, 0xe0, 0, 2])))],
    [
      'a thousand segments before the frame',
      jpegOf(...Array(1_000).fill(Buffer.from([0xff, 0xe0, 0, 2])), frame(640, 480)),
    ],
  ])('with %s has no size', (_name, data) => {
    expect(sizeOf(data)).toBeUndefined();
  });

  it('may have fill bytes before its markers', () => {
    expect(sizeOf(jpegOf(Buffer.alloc(3, 0xff), frame(65_535, 1)))).toEqual({ width: 65_535, height: 1 });
  });
});
