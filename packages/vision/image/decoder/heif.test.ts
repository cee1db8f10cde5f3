import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isHeif, sniffFormat } from '../container.ts';
import { encodeBase, openPicture, readAlpha, readBase, readFace, readShown } from '../picture-file.ts';
import { withDecoder } from './attempt-decoder.ts';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-heif-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const PHONE = 'media/phone';
const portrait = () => readFile(`${PHONE}/portrait.heic`);

async function stored(name: string, bytes: Uint8Array): Promise<string> {
  const path = join(dir, name);
  await writeFile(path, bytes);
  return path;
}

/** Mean difference, and the mean of each channel, from a picture file in sRGB. */
async function differences(picture: Picture, file: string | Buffer) {
  const { width, height } = picture;
  const wanted = await sharp(file).resize(width, height, { fit: 'fill' }).removeAlpha().raw().toBuffer();
  const sums = [0, 0, 0];
  let total = 0;
  for (const [i, value] of wanted.entries()) {
    const by = (picture.data[i] as number) - value;
    total += Math.abs(by);
    sums[i % 3] = (sums[i % 3] as number) + by;
  }
  return { mean: total / wanted.length, channels: sums.map((sum) => Math.abs(sum / (width * height))) };
}

function expectAlike({ mean, channels }: Awaited<ReturnType<typeof differences>>): void {
  expect(mean).toBeLessThan(3);
  expect(Math.max(...channels)).toBeLessThan(0.6);
}

describe('a HEIC picture', () => {
  it('of a phone is joined of its tiles, upright once, and of the right colours', async () => {
    const face = await readFace(`${PHONE}/portrait.heic`);
    expect(face).toMatchObject({ width: 512, height: 600, channels: 3 });
    expectAlike(await differences(face, 'media/grace_hopper.jpg'));
  });

  it('to be changed keeps its profile, and is written as JPEG', async () => {
    const base = await readBase(`${PHONE}/portrait.heic`);
    const { profile } = base;
    expect(base).toMatchObject({ format: 'jpeg', lossless: false });
    expect(profile).toEqual((await sharp(`${PHONE}/portrait.heic`).metadata()).icc);
    const out = await encodeBase(base);
    expect(await sharp(out).metadata()).toMatchObject({
      format: 'jpeg',
      width: 512,
      height: 600,
      icc: profile,
    });
    const seen = await sharp(out).raw().toBuffer();
    expectAlike(
      await differences({ width: 512, height: 600, channels: 3, data: seen }, 'media/grace_hopper.jpg'),
    );
  });

  it('of ten bits, mirrored, with its colours by number, keeps the bits and becomes a PNG of 16', async () => {
    const path = `${PHONE}/deep.heic`;
    expectAlike(await differences(await readFace(path), 'media/astronaut.png'));
    const base = await readBase(path);
    expect(base).toMatchObject({ format: 'png', lossless: true });
    const samples = base.picture.data as Uint16Array;
    expect(samples).toBeInstanceOf(Uint16Array);
    // Values between those of eight bits are there.
    expect(new Set(samples).size).toBeGreaterThan(256);
    const out = await encodeBase(base);
    expect(await sharp(out).metadata()).toMatchObject({ format: 'png', depth: 'ushort', icc: base.profile });
  });

  it('keeps its opacity', async () => {
    const path = `${PHONE}/cut-out.heic`;
    const alpha = await readAlpha(path, 'The picture');
    expect([alpha?.data[0], alpha?.data[128 * 256 + 128]]).toEqual([0, 255]);
    expect((await readShown(path, 'The picture')).data.subarray(0, 3)).toEqual(Uint8Array.of(255, 255, 255));
    expect(await readBase(path)).toMatchObject({ format: 'png', picture: { channels: 4 } });
  });

  it('serves a look at it, at a smaller size', async () => {
    const size = { width: 64, height: 64, fit: 'inside' } as const;
    const how = { limit: 1e6, space: 'srgb', depth: 'uchar', alpha: 'white', size } as const;
    const file = await portrait();
    const small = await withDecoder((decoder) => decoder.decode(file, how));
    expect([small.width, small.height]).toEqual([55, 64]);
  });

  it.each([
    ['cut off', (file: Buffer) => file.subarray(0, file.length / 2)],
    ['cut off in its header', (file: Buffer) => file.subarray(0, 200)],
    ['with nothing but a type', (file: Buffer) => file.subarray(0, 32)],
    [
      'with noise for pixels',
      (file: Buffer) => Buffer.concat([file.subarray(0, 2_000), Buffer.alloc(file.length - 2_000, 0x5a)]),
    ],
    ['whose tiles are missing', (file: Buffer) => replaced(file, 'dimg', 'xxxx')],
    ['whose codec is another', (file: Buffer) => replaced(file, 'hvc1', 'vvc1')],
  ])('%s is refused', async (what, damage) => {
    const path = await stored(`${what.replaceAll(' ', '-')}.heic`, damage(await portrait()));
    const code = await readBase(path).then(
      () => 'read',
      (error: { code: string }) => error.code,
    );
    expect(code).toBe('unsupported_format');
  });

  it('that claims to be huge is refused before it is decoded', async () => {
    const file = await portrait();
    const huge = Buffer.alloc(8, 0);
    huge.writeUInt32BE(40_000, 0);
    huge.writeUInt32BE(30_000, 4);
    // Every size that the header states: the box, its version, and two sides.
    for (let at = file.indexOf('ispe'); at >= 0; at = file.indexOf('ispe', at + 4)) huge.copy(file, at + 8);
    const path = await stored('huge.heic', file);
    await expect(readBase(path)).rejects.toMatchObject({
      code: expect.stringMatching(/^(input_too_large|unsupported_format)$/),
    });
  });

  it('of high dynamic range is refused, and says so', async () => {
    const file = await portrait();
    const at = file.indexOf('nclx');
    file.writeUInt16BE(16, at + 6);
    const path = await stored('hdr.heic', file);
    await expect(openPicture(path, 'The picture')).rejects.toMatchObject({
      code: 'unsupported_format',
      message: expect.stringContaining('high dynamic range'),
    });
  });
});

function replaced(file: Buffer, from: string, to: string): Buffer {
  return Buffer.from(file.toString('latin1').replaceAll(from, to), 'latin1');
}

describe('an AVIF picture', () => {
  it.each([8, 10, 12] as const)('of %i bits is read', async (bitdepth) => {
    const path = join(dir, `${bitdepth}.avif`);
    await sharp('media/astronaut.png').resize(256).avif({ quality: 90, bitdepth }).toFile(path);
    expectAlike(await differences(await readFace(path), 'media/astronaut.png'));
    const base = await readBase(path);
    expect(base).toMatchObject({
      format: bitdepth > 8 ? 'png' : 'jpeg',
      picture: { width: 256, height: 256 },
    });
    expect(base.picture.data instanceof Uint16Array).toBe(bitdepth > 8);
  });

  it('keeps its profile, and is shown by it', async () => {
    const path = join(dir, 'p3.avif');
    await sharp('media/astronaut.png').resize(256).withIccProfile('p3').avif({ quality: 90 }).toFile(path);
    expectAlike(await differences(await readFace(path), 'media/astronaut.png'));
    expect((await readBase(path)).profile?.length).toBeGreaterThan(100);
  });

  it('cut off is refused', async () => {
    const whole = await sharp('media/astronaut.png').resize(256).avif().toBuffer();
    const path = await stored('cut.avif', whole.subarray(0, whole.length - 500));
    await expect(readBase(path)).rejects.toMatchObject({ code: 'unsupported_format' });
  });
});

describe('a GIF picture', () => {
  it('is read, and written as PNG', async () => {
    const path = join(dir, 'still.gif');
    await sharp('media/astronaut.png').resize(128).gif().toFile(path);
    expect(await readFace(path)).toMatchObject({ width: 128, channels: 3 });
    expect(await readBase(path)).toMatchObject({ format: 'png', lossless: true });
  });

  it('that moves is a face by its first frame, and no picture to be changed', async () => {
    const frame = (background: string) =>
      sharp({ create: { width: 20, height: 20, channels: 3, background } })
        .png()
        .toBuffer();
    const frames = await Promise.all(['#a00', '#0a0'].map(frame));
    const path = join(dir, 'moving.gif');
    await sharp(frames, { join: { animated: true } })
      .gif()
      .toFile(path);
    const face = await readFace(path);
    expect([face.width, face.height, ...face.data.subarray(0, 3)]).toEqual([20, 20, 0xaa, 0, 0]);
    await expect(readBase(path)).rejects.toMatchObject({ message: expect.stringContaining('is animated') });
  });
});

describe('a picture of 16 bits with a profile', () => {
  it('shows the colours that it means, as in 8 bits', async () => {
    const p3 = await sharp('media/astronaut.png')
      .resize(128)
      .removeAlpha()
      .withIccProfile('p3')
      .png()
      .toBuffer();
    const path = join(dir, 'deep-p3.png');
    const pixels = await sharp(p3, { ignoreIcc: true }).raw().toBuffer({ resolveWithObject: true });
    const deep = Uint16Array.from(pixels.data, (value) => value * 257);
    const { width, height } = pixels.info;
    const base = {
      picture: { width, height, channels: 3 as const, data: deep },
      format: 'png' as const,
      lossless: true,
      profile: (await sharp(p3).metadata()).icc,
    };
    await writeFile(path, await encodeBase(base));
    expectAlike(await differences(await readFace(path), 'media/astronaut.png'));
    expect((await readBase(path)).picture.data).toEqual(deep);
  });
});

describe('the type of a file', () => {
  it('is told by its brands', async () => {
    const brands = (...names: string[]) => {
      const box = Buffer.from(`0000ftyp${names[0]}\0\0\0\0${names.slice(1).join('')}`, 'latin1');
      box.writeUInt32BE(box.length, 0);
      return box;
    };
    expect(sniffFormat(await portrait())).toBe('heif');
    expect(isHeif(brands('heic', 'mif1'))).toBe(true);
    expect(isHeif(brands('mif1', 'avif'))).toBe(true);
    expect(isHeif(brands('isom', 'mp42'))).toBe(false);
    expect(isHeif(brands('isom'))).toBe(false);
    expect(isHeif(Buffer.alloc(20))).toBe(false);
    expect(isHeif(Buffer.alloc(0))).toBe(false);
  });
});
