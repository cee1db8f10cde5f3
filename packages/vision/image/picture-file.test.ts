import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp, { type Sharp } from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readFace, readShown } from './picture-file.ts';

let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'semblance-pictures-'));
});

afterAll(() => rm(directory, { recursive: true, force: true }));

/** Returns three pixels side by side: transparent, half transparent, and opaque. */
async function partly(
  name: string,
  [red, green, blue]: readonly [number, number, number],
  write: (picture: Sharp) => Sharp,
): Promise<string> {
  const path = join(directory, name);
  const data = Uint8Array.from([0, 128, 255].flatMap((alpha) => [red, green, blue, alpha]));
  await write(sharp(data, { raw: { width: 3, height: 1, channels: 4 } })).toFile(path);
  return path;
}

describe('a picture that is shown', () => {
  it.each([
    ['8.png', (picture: Sharp) => picture.png()],
    ['16.png', (picture: Sharp) => picture.toColourspace('rgb16').png()],
    ['colours.png', (picture: Sharp) => picture.png({ palette: true, dither: 0 })],
    ['lossless.webp', (picture: Sharp) => picture.webp({ lossless: true, exact: true })],
  ] as const)('has white where %s is transparent, and a blend where it is partly so', async (name, write) => {
    const path = await partly(name, [200, 30, 30], write);
    const { channels, data } = await readShown(path, 'The portrait');
    expect(channels).toBe(3);
    expect([...data.slice(0, 3)]).toEqual([255, 255, 255]);
    for (const [i, wanted] of [227, 142, 142].entries()) {
      expect(Math.abs((data[3 + i] as number) - wanted)).toBeLessThanOrEqual(2);
    }
    expect([...data.slice(6)]).toEqual([200, 30, 30]);
  });

  it('is so in grey too', async () => {
    const path = await partly('grey.png', [60, 60, 60], (picture) => picture.toColourspace('b-w').png());
    expect((await sharp(path).metadata()).channels).toBe(2);
    const { channels, data } = await readShown(path, 'The portrait');
    expect(channels).toBe(3);
    expect([...data]).toEqual([255, 255, 255, ...Array(3).fill(expect.closeTo(157, -0.5)), 60, 60, 60]);
  });

  it('is as it was where all of it is there', async () => {
    const path = join(directory, 'whole.png');
    const whole = sharp({ create: { width: 2, height: 2, channels: 4, background: '#12345678' } });
    await whole.removeAlpha().png().toFile(path);
    expect([...(await readShown(path, 'The portrait')).data.slice(0, 3)]).toEqual([0x12, 0x34, 0x56]);
  });
});

it('a face that is only recognised is read without regard to transparency', async () => {
  const path = await partly('face.png', [200, 30, 30], (picture) => picture.png());
  expect([...(await readFace(path)).data]).toEqual([200, 30, 30, 200, 30, 30, 200, 30, 30]);
});
