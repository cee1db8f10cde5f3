import { type Intruder, jpegIntruder } from '@semblance/testkit/live/video/jpeg-intruder';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { compileDecoder, JpegDecoder, withMostMemory } from './jpeg-decoder.ts';
import { PICTURE_LIMITS } from './types.ts';

const CAT = 'media/cat.jpg';
const small = () => sharp(CAT).resize(161, 121, { fit: 'cover' }).toColourspace('srgb');
let good: Buffer;
beforeAll(async () => {
  good = await small().jpeg().toBuffer();
});

const native = async (picture: Uint8Array) =>
  new Uint8Array(await sharp(picture).toColourspace('srgb').removeAlpha().raw().toBuffer());

describe('libjpeg-turbo in WebAssembly', () => {
  it.each([
    ['a camera', () => small().jpeg({ quality: 85 })],
    ['another quality', () => small().jpeg({ quality: 20 })],
    ['full colours', () => small().jpeg({ chromaSubsampling: '4:4:4' })],
    ['passes', () => small().jpeg({ progressive: true })],
    ['brightness only', () => small().greyscale().jpeg()],
    ['the largest size', () => sharp(CAT).resize(1280, 720, { fit: 'cover' }).jpeg()],
    ['one pixel', () => sharp(CAT).resize(1, 1).jpeg()],
  ])('gives to the bit what the native library gives: %s', async (_what, make) => {
    const picture = await make().toBuffer();
    const { data, doubtful } = new JpegDecoder(PICTURE_LIMITS).decode(picture);
    expect(doubtful).toBe(false);
    expect(Buffer.compare(data, await native(picture))).toBe(0);
  });

  it('goes on after pictures that it cannot decode, whatever they are', async () => {
    const decoder = new JpegDecoder(PICTURE_LIMITS);
    const expected = await native(good);
    const scan = good.indexOf(Buffer.from([0xff, 0xda]));
    for (let round = 0; round < 400; round++) {
      const bad = Buffer.from(good);
      for (let hit = 0; hit <= round % 4; hit++) {
        // Every other one in the header.
        const at = (round * 2_654_435_761 + hit * 40_503) % (round % 2 ? scan : bad.length);
        bad[at] = (bad[at] as number) ^ (1 + ((round * 31) % 255));
      }
      try {
        const { width, height, data } = decoder.decode(bad);
        expect(data.length).toBe(width * height * 3);
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
      }
      if (round % 50 === 0) expect(Buffer.compare(decoder.decode(good).data, expected)).toBe(0);
    }
    expect(Buffer.compare(decoder.decode(good).data, expected)).toBe(0);
  });

  it('takes no file and no picture over the limits', () => {
    const [bytes, pixels] = [good.length, 161 * 121];
    expect(new JpegDecoder({ bytes, pixels }).decode(good)).toMatchObject({ width: 161, height: 121 });
    expect(() => new JpegDecoder({ bytes: bytes - 1, pixels }).decode(good)).toThrow(RangeError);
    expect(() => new JpegDecoder({ bytes, pixels: pixels - 1 }).decode(good)).toThrow('161 × 121 pixels');
  });
});

describe('code in the place of the decoder', () => {
  const decode = (code: Intruder) =>
    new JpegDecoder({ ...PICTURE_LIMITS, module: jpegIntruder(code) }).decode(good);

  it('can call nothing but what tells it nothing', () => {
    const { Module } = (
      globalThis as unknown as { WebAssembly: { Module: { imports(of: object): object[] } } }
    ).WebAssembly;
    expect(Module.imports(compileDecoder()).map((one) => Object.values(one).join(' '))).toEqual([
      'env setjmp function',
      'env longjmp function',
      ...['proc_exit', 'environ_sizes_get', 'environ_get', 'fd_close', 'fd_seek', 'fd_write'].map(
        (name) => `wasi_snapshot_preview1 ${name} function`,
      ),
    ]);
  });

  it.each(['proc_exit', 'environ_get', 'fd_close', 'fd_seek', 'fd_write'] as const)(
    'that calls %s ends its picture only',
    (name) => {
      expect(() => decode({ calls: name })).toThrow(`the decoder of JPEG calls ${name}`);
    },
  );

  it.each(['process', 'require', 'fd_read', 'sock_send'])('is not started when it wants %s', (name) => {
    expect(() => decode({ wants: name })).toThrow('function import requires a callable');
  });

  it.each([
    ['reads', 'load'],
    ['writes', 'store'],
  ] as const)('that %s outside its memory ends its picture only', (_what, does) => {
    expect(() => decode({ [does]: 0xffff_fff0 })).toThrow('memory access out of bounds');
  });

  it('gets 64 MiB at most', () => {
    // It says how many pages of 64 KiB it got as the width of the picture.
    expect(decode({ grows: true })).toMatchObject({ width: 1_024, height: 1 });
  });

  it.each([
    ['a picture over the limit', { width: 65_000, height: 65_000 }, '65000 × 65000 pixels'],
    ['a picture without pixels', { width: 0, height: 9 }, '0 × 9 pixels'],
    ['memory that it does not have', { width: 9, height: 9, place: 0x7fff_0000 }, 'typed array length'],
    ['no memory', { width: 9, height: 9, place: 0 }, 'got no memory'],
  ])('is not believed when it answers %s', (_what, answer, message) => {
    expect(() => decode(answer)).toThrow(message);
  });
});

it('a module whose memory cannot be limited is not used', () => {
  expect(() => withMostMemory(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0), 9)).toThrow('without memory');
});
