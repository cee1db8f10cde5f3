import { readFile } from 'node:fs/promises';
import sharp from 'sharp';
import { expect, it } from 'vitest';
import { changedPixels, expectSwapped } from './changed-pixels.ts';
import { decodePng, type Picture } from './png.ts';

const portrait = new URL('../media/astronaut.png', import.meta.url);

it.each([false, true])('reads a PNG as the library does that agents use (with alpha: %s)', async (alpha) => {
  const { data, info } = await sharp(await readFile(portrait))
    .raw()
    .toBuffer({ resolveWithObject: true });
  const source = sharp(data, { raw: info });
  const file = await (alpha ? source.ensureAlpha() : source).png({ adaptiveFiltering: true }).toBuffer();
  const picture = decodePng(file);
  expect([picture.width, picture.height]).toEqual([info.width, info.height]);
  expect(Buffer.compare(Buffer.from(picture.rgb), data)).toBe(0);
});

it('refuses what is no such PNG', async () => {
  expect(() => decodePng(Buffer.from('GIF89a'))).toThrow('not a PNG');
  const indexed = await sharp(await readFile(portrait))
    .png({ palette: true })
    .toBuffer();
  expect(() => decodePng(indexed)).toThrow('8-bit RGB');
});

it('tells a picture with a part exchanged from the same one, another one, and one of another size', async () => {
  const base = decodePng(await readFile(portrait));
  const changed = (rows: number): Picture => ({
    ...base,
    rgb: base.rgb.map((value, index) => (index < rows * base.width * 3 ? 255 - value : value)),
  });
  expect(changedPixels(base, base)).toBe(0);
  expect(() => expectSwapped(base, base)).toThrow('no face was swapped');
  expect(() => expectSwapped(base, changed(base.height))).toThrow('more than a face');
  expect(() => expectSwapped(base, { ...base, width: base.width / 2, height: base.height * 2 })).toThrow(
    'pixels',
  );
  expect(expectSwapped(base, changed(40))).toBeGreaterThan(0.05);
});
