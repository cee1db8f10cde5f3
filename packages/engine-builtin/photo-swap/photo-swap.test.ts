import { readFile } from 'node:fs/promises';
import type { Picture } from '@semblance/engine-api/picture';
import { ADMIRAL, ASTRONAUT, PROFESSOR, useSwapRig } from '@semblance/testkit/engine-builtin/swap-rig';
import { distance, dlibJudge, type Judge } from '@semblance/testkit/quality/judge';
import { changedOutside } from '@semblance/testkit/quality/measures';
import { FaceFinder } from '@semblance/vision/face-finder';
import { type Face, pointOf } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';

const rig = useSwapRig();
const { swap, file } = rig;
let finder: FaceFinder;
let judge: Judge;

beforeAll(async () => {
  finder = new FaceFinder({
    blazeface: await openSession('blazeface'),
    facemesh: await openSession('facemesh'),
  });
  judge = await dlibJudge();
});

async function rgb(path: string): Promise<Picture> {
  const { data, info } = await sharp(path, { limitInputPixels: false })
    .toColourspace('srgb')
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, channels: 3, data: new Uint8Array(data) };
}

async function mainFace(picture: Picture): Promise<Face> {
  const [face] = await finder.find(picture, () => undefined);
  if (!face) throw new Error('no face in a test picture');
  return face;
}

describe('glasses without rims', () => {
  it('stay whole on the target', async () => {
    const { points, ...face } = await mainFace(await rgb(ASTRONAUT));
    const at = (i: number, axis: number): number => points[i * 3 + axis] as number;
    const line = (a: number, b: number): string =>
      `<path d="M${at(a, 0)} ${at(a, 1) - 0.02 * face.width}L${at(b, 0)} ${at(b, 1) - 0.02 * face.width}"/>`;
    const { width, height } = await rgb(ASTRONAUT);
    const svg = `<svg width="${width}" height="${height}" stroke="#4a3428" stroke-width="1.6">${line(133, 362)}${line(33, 127)}${line(263, 356)}</svg>`;
    const target = await file(
      'rimless.png',
      sharp(ASTRONAUT)
        .composite([{ input: Buffer.from(svg) }])
        .png()
        .toBuffer(),
    );
    const [before, after] = [await rgb(target), await rgb((await swap(target, PROFESSOR)).outputPath)];
    let [changed, count] = [0, 0];
    for (let x = Math.ceil(at(133, 0)); x < at(362, 0); x++, count++) {
      const y = Math.floor((at(133, 1) + at(362, 1)) / 2 - 0.02 * face.width);
      const i = (y * width + x) * 3;
      changed += Math.abs((after.data[i] as number) - (before.data[i] as number));
    }
    expect(changed / count).toBeLessThan(5);
  });
});

describe('likeness', () => {
  it.each([
    ['the astronaut onto the admiral', ADMIRAL, ASTRONAUT],
    ['the admiral onto the astronaut', ASTRONAUT, ADMIRAL],
  ])('carries %s, by a judge that the engine does not use', async (_, image, face) => {
    const { outputPath, units, details } = await swap(image, face);
    expect(units).toEqual({ unit: 'image', quantity: 1 });
    expect(details.faces).toBe(1);
    const [before, source, after] = [await rgb(image), await rgb(face), await rgb(outputPath)];
    const place = await mainFace(before);
    const wanted = await judge.describe(source, await mainFace(source));
    const was = await judge.describe(before, place);
    const is = await judge.describe(after, place);
    expect(distance(is, wanted)).toBeLessThan(distance(was, wanted) - 0.1);
    expect(distance(is, was)).toBeGreaterThan(0.3);
  });

  it('fills in what a lock of dark hair hides of the source instead of carrying it over', async () => {
    const source = await rgb(ASTRONAUT);
    const { points, width } = await mainFace(source);
    const at = (index: number): string => `${points[index * 3]},${points[index * 3 + 1]}`;
    // A lock from the temple over the cheek to the jaw, a tenth of the face wide.
    const lock = `<svg width="${source.width}" height="${source.height}"><polyline points="${at(127)} ${at(234)}
      ${at(132)} ${at(58)}" fill="none" stroke="#140c08" stroke-width="${0.24 * width}"/></svg>`;
    const hidden = await file(
      'lock.png',
      sharp(ASTRONAUT)
        .composite([{ input: Buffer.from(lock) }])
        .png()
        .toBuffer(),
    );
    const clean = await rgb((await swap(ADMIRAL, ASTRONAUT)).outputPath);
    const filled = await rgb((await swap(ADMIRAL, hidden)).outputPath);
    const face = await mainFace(await rgb(ADMIRAL));
    let darker = 0;
    for (let i = 0; i < clean.data.length; i += 3) {
      if ((clean.data[i] as number) - (filled.data[i] as number) > 50) darker++;
    }
    // The lock itself covers about 0.08 of the square of the face's width.
    expect(darker / face.width ** 2).toBeLessThan(0.01);
  });

  it('swaps every face of a group and none of a bystander', async () => {
    const portrait = await sharp(ASTRONAUT)
      .extract({ left: 120, top: 0, width: 220, height: 260 })
      .png()
      .toBuffer();
    const row = (widths: number[]): Promise<Buffer> =>
      Promise.all(
        widths.map(async (width, i) => ({
          input: await sharp(portrait).resize({ width }).toBuffer(),
          left: 20 + i * 460,
          top: 20,
        })),
      ).then((input) =>
        sharp({ create: { width: 940, height: 560, channels: 3, background: '#777' } })
          .composite(input)
          .png()
          .toBuffer(),
      );
    const picture = await file('group.png', row([440, 420]));
    const group = await swap(picture, ADMIRAL);
    expect(group.details.faces).toBe(2);
    expect(group.findings?.faces).toEqual({ found: 2, changed: 2, left: [] });
    const bystander = await swap(await file('bystander.png', row([440, 160])), ADMIRAL);
    expect(bystander.details.faces).toBe(1);
    const { findings } = await swap(ADMIRAL, picture);
    expect(findings).toMatchObject({ faces: { found: 1, changed: 1 }, hints: [{ code: 'several_faces' }] });
  });

  it('tells what is amiss with the pictures', async () => {
    const hintsOf = async (image: string, face: string) => {
      const hints = (await swap(image, face)).findings?.hints ?? [];
      return hints.map(({ code, input = '' }) => `${code} ${input}`);
    };
    expect(await hintsOf(ADMIRAL, ASTRONAUT)).toEqual([]);
    expect(await hintsOf(ASTRONAUT, ADMIRAL)).toEqual(['glasses face']);
    expect(await hintsOf(ADMIRAL, PROFESSOR)).toContain('face_turned face');
    expect(await hintsOf(PROFESSOR, ASTRONAUT)).toContain('face_turned image');
    const small = await file('small.png', sharp(ASTRONAUT).resize(256).png().toBuffer());
    expect(await hintsOf(ADMIRAL, small)).toContain('face_small face');
    expect(await hintsOf(small, ASTRONAUT)).toContain('face_small image');
  });
});

describe('what must not change', () => {
  it('leaves every pixel far from the face and the alpha channel as they were', async () => {
    const { data, info } = await sharp(ASTRONAUT).ensureAlpha().raw().toBuffer({ resolveWithObject: true });
    for (let i = 0; i < info.width * info.height; i++) data[i * 4 + 3] = 40 + (i % 200);
    const raw = { raw: { width: info.width, height: info.height, channels: 4 as const } };
    const image = await file('alpha.png', sharp(data, raw).png().toBuffer());
    const { outputPath, contentType } = await swap(image, ADMIRAL);
    expect(contentType).toBe('image/png');
    const after = await sharp(outputPath).raw().toBuffer();
    let alphaChanged = 0;
    let changed = 0;
    for (let i = 0; i < data.length; i += 4) {
      if (after[i + 3] !== data[i + 3]) alphaChanged++;
      if (after[i] !== data[i] || after[i + 1] !== data[i + 1] || after[i + 2] !== data[i + 2]) changed++;
    }
    expect(alphaChanged).toBe(0);
    expect(changed).toBeGreaterThan(2000);
    const before = await rgb(ASTRONAUT);
    expect(changedOutside(before, await rgb(outputPath), await mainFace(before))).toBe(0);
  });

  it('moves the jaw, and what is close to it, but nothing far from the face', async () => {
    const { outputPath } = await swap(ASTRONAUT, ADMIRAL);
    const [before, after] = [await rgb(ASTRONAUT), await rgb(outputPath)];
    const face = await mainFace(before);
    expect(changedOutside(before, after, face)).toBe(0);
    const below = (height: number) => {
      const { x, y } = pointOf(face.points, 152);
      const at = (Math.round(y + height * face.width) * before.width + Math.round(x)) * 3;
      return Math.abs((before.data[at] as number) - (after.data[at] as number));
    };
    expect(Math.max(below(0.02), below(0.04), below(0.06))).toBeGreaterThan(0);
    expect(below(0.4)).toBe(0);
  });

  it('gives the same bytes every time, alone and beside another render', async () => {
    const [first, second] = await Promise.all([swap(ADMIRAL, ASTRONAUT), swap(ADMIRAL, ASTRONAUT)]);
    const third = await swap(ADMIRAL, ASTRONAUT);
    const bytes = await readFile(first.outputPath);
    expect(bytes.equals(await readFile(second.outputPath))).toBe(true);
    expect(bytes.equals(await readFile(third.outputPath))).toBe(true);
  });

  it('turns the picture as its orientation tag says and drops the tag', async () => {
    const turned = await file(
      'turned.jpg',
      sharp(ADMIRAL).rotate(270).withMetadata({ orientation: 6 }).jpeg({ quality: 100 }).toBuffer(),
    );
    const { outputPath } = await swap(turned, ASTRONAUT);
    const { width, height, orientation } = await sharp(outputPath).metadata();
    expect([width, height, orientation]).toEqual([512, 600, undefined]);
    const upright = await mainFace(await rgb(outputPath));
    expect(Math.abs(upright.roll)).toBeLessThan(0.2);
  });

  it.each(['jpeg', 'png', 'webp'] as const)(
    'keeps the colour profile and colours of a wide-gamut %s',
    async (format) => {
      const wide = sharp(ASTRONAUT).withIccProfile('p3');
      const bytes =
        format === 'webp'
          ? wide.webp({ lossless: true }).toBuffer()
          : wide.toFormat(format, { quality: 100 }).toBuffer();
      const image = await file(`wide.${format}`, bytes);
      const { outputPath } = await swap(image, ADMIRAL);
      const [before, after] = [await sharp(image).metadata(), await sharp(outputPath).metadata()];
      expect(after.format).toBe(format);
      expect(after.icc?.equals(before.icc as Buffer)).toBe(true);
      const corner = { left: 0, top: 300, width: 200, height: 200 };
      const mean = async (path: string): Promise<number[]> =>
        (await sharp(await sharp(path).extract(corner).png().toBuffer()).stats()).channels.map(
          (channel) => channel.mean,
        );
      const [was, is] = [await mean(image), await mean(outputPath)];
      for (const [c, value] of was.entries()) expect(Math.abs(value - (is[c] as number))).toBeLessThan(1);
    },
  );

  it('keeps a grey picture grey, as one channel and as three', async () => {
    const one = await swap(PROFESSOR, ASTRONAUT);
    expect((await sharp(one.outputPath).metadata()).space).toBe('b-w');
    const image = await file('grey.png', sharp(PROFESSOR).toColourspace('srgb').png().toBuffer());
    const three = await swap(image, ASTRONAUT);
    const { data } = await rgb(three.outputPath);
    let worst = 0;
    for (let i = 0; i < data.length; i += 3) {
      const [r = 0, g = 0, b = 0] = data.subarray(i, i + 3);
      worst = Math.max(worst, Math.max(r, g, b) - Math.min(r, g, b));
    }
    expect(worst).toBeLessThanOrEqual(2);
  });

  it('takes a grey face into a picture with colours', async () => {
    const { outputPath } = await swap(ASTRONAUT, PROFESSOR);
    const after = await rgb(outputPath);
    const face = await mainFace(await rgb(ASTRONAUT));
    const nose =
      (Math.round(face.points[4 * 3 + 1] as number) * after.width +
        Math.round(face.points[4 * 3] as number)) *
      3;
    expect((after.data[nose] as number) - (after.data[nose + 2] as number)).toBeGreaterThan(15);
  });

  it('keeps 16 bits', async () => {
    const deep = sharp(ASTRONAUT).toColourspace('rgb16').linear(1, 77);
    const image = await file('deep.png', deep.png().toBuffer());
    const { outputPath } = await swap(image, ADMIRAL);
    expect((await sharp(outputPath).metadata()).depth).toBe('ushort');
    const read = async (path: string): Promise<Buffer> =>
      sharp(path)
        .toColourspace('rgb16')
        .extract({ left: 0, top: 0, width: 100, height: 100 })
        .raw({ depth: 'ushort' })
        .toBuffer();
    expect((await read(outputPath)).equals(await read(image))).toBe(true);
  });

  it('takes CMYK and gives sRGB that looks alike', async () => {
    const image = await file(
      'cmyk.jpg',
      sharp(ADMIRAL).toColourspace('cmyk').jpeg({ quality: 100 }).toBuffer(),
    );
    expect((await sharp(image).metadata()).space).toBe('cmyk');
    const { outputPath } = await swap(image, ASTRONAUT);
    expect((await sharp(outputPath).metadata()).space).toBe('srgb');
    const mean = (picture: Picture, channel: number): number => {
      let sum = 0;
      for (let i = channel; i < picture.data.length; i += 3) sum += picture.data[i] as number;
      return (sum * 3) / picture.data.length;
    };
    const [before, after] = [await rgb(image), await rgb(outputPath)];
    for (let c = 0; c < 3; c++) expect(Math.abs(mean(before, c) - mean(after, c))).toBeLessThan(4);
  });
});

describe('sizes', () => {
  it('finds a face 60 pixels wide in 40 megapixels', async () => {
    const small = await sharp(ASTRONAUT).resize({ width: 336 }).png().toBuffer();
    const image = await file(
      'small-face.jpg',
      sharp({ create: { width: 7700, height: 5190, channels: 3, background: '#667' } })
        .composite([{ input: small, left: 5200, top: 3300 }])
        .jpeg()
        .toBuffer(),
    );
    const { details } = await swap(image, ADMIRAL);
    expect(details).toEqual({ faces: 1, width: 7700, height: 5190 });
  });

  it('replaces a face 2000 pixels wide', async () => {
    const image = await file(
      'large-face.jpg',
      sharp(ASTRONAUT)
        .extract({ left: 150, top: 40, width: 150, height: 160 })
        .resize(3300, 3520)
        .jpeg()
        .toBuffer(),
    );
    const before = await rgb(image);
    const face = await mainFace(before);
    expect(face.width).toBeGreaterThan(1900);
    const { outputPath, details } = await swap(image, ADMIRAL);
    expect(details.faces).toBe(1);
    const wanted = await judge.describe(await rgb(ADMIRAL), await mainFace(await rgb(ADMIRAL)));
    const was = await judge.describe(before, face);
    expect(distance(await judge.describe(await rgb(outputPath), face), wanted)).toBeLessThan(
      distance(was, wanted),
    );
  });

  it.each([90, 180])('finds a face in a picture lying turned by %i degrees', async (angle) => {
    const image = await file('lying.png', sharp(ASTRONAUT).rotate(angle).png().toBuffer());
    expect((await swap(image, ADMIRAL)).details.faces).toBe(1);
  });
});
