import { join } from 'node:path';
import { openPortraits, type Portrait } from '@semblance/testkit/engine-builtin/portraits';
import { cropsOf, type Face } from '@semblance/vision/face-mesh';
import sharp, { type Sharp } from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { looksDrawn } from './drawn.ts';
import { faceHints } from './hints.ts';

const MEDIA = join(import.meta.dirname, '..', '..', '..', 'media');
const FILES = ['astronaut.png', 'grace_hopper.jpg', 'einstein.jpg'].map((name) => join(MEDIA, name));
/** A face in even colours over the mesh of the astronaut: skin, eyes, brows and mouth. */
const CARTOON = (outline: string, features: string, width: number, height: number) =>
  Buffer.from(
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><rect width="100%" height="100%" fill="#bcd"/><polygon points="${outline}" fill="#d9a066" stroke="#222" stroke-width="3"/>${features}</svg>`,
  );
const OVAL = [10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377, 152];
const REST = [148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109];
const SHAPES = [
  [33, 160, 158, 133, 153, 144],
  [263, 387, 385, 362, 380, 373],
  [70, 63, 105, 66, 107, 55, 65, 52],
  [300, 293, 334, 296, 336, 285, 295, 282],
  [61, 40, 37, 0, 267, 270, 291, 321, 314, 17, 84, 91],
] as const;

let portraits: Portrait[];

beforeAll(async () => {
  portraits = await openPortraits(...FILES);
});

async function cropsFrom(image: Sharp) {
  const { data, info } = await image
    .removeAlpha()
    .toColourspace('srgb')
    .raw()
    .toBuffer({ resolveWithObject: true });
  const { width, height } = info;
  return cropsOf({ width, height, channels: 3, data: new Uint8Array(data) });
}

function cartoon({ points }: Face, width: number, height: number): Sharp {
  const along = (indices: readonly number[]) =>
    indices.map((i) => `${points[i * 3]},${points[i * 3 + 1]}`).join(' ');
  const features = SHAPES.map((shape, i) => {
    const fill = ['#fff', '#fff', '#432', '#432', '#b44'][i];
    return `<polygon points="${along(shape)}" fill="${fill}" stroke="#222" stroke-width="3"/>`;
  });
  return sharp(CARTOON(along([...OVAL, ...REST]), features.join(''), width, height));
}

describe('a face', () => {
  it('in even colours is drawn, and a hint tells so', async () => {
    for (const { face, picture } of portraits) {
      const crops = await cropsFrom(cartoon(face, picture.width, picture.height));
      expect(faceHints(face, { role: 'face', name: 'face picture' }, crops)).toContainEqual({
        code: 'face_drawn',
        message: 'The face in the face picture looks drawn. A photograph gives a better result.',
        input: 'face',
      });
    }
  });

  it.each([
    ['in lines', (bright: number, around: number) => (bright - around < -2 ? 20 : 255)],
    [
      'in a woodcut',
      (bright: number, around: number, at: number) =>
        bright + 30 * Math.sin(at) > around / 2 + 64 ? 245 : 10,
    ],
  ])('%s is drawn', async (_, ink) => {
    for (const [i, { face, picture }] of portraits.entries()) {
      const { width, height } = picture;
      const grey = (sigma: number) => sharp(FILES[i]).flatten().greyscale().blur(sigma).raw().toBuffer();
      const [near, far] = await Promise.all([grey(0.01 * face.width), grey(0.016 * face.width)]);
      const data = Uint8Array.from({ length: 3 * width * height }, (_, k) => {
        const at = Math.floor(k / 3);
        const along = (2 * Math.PI * ((at % width) + Math.floor(at / width))) / (0.04 * face.width);
        return ink(near[at] as number, far[at] as number, along);
      });
      expect(looksDrawn(cropsOf({ width, height, channels: 3, data }), face), FILES[i]).toBe(true);
    }
  });

  it.each<[string, (image: Sharp) => Sharp]>([
    ['as it is', (image) => image],
    ['of a low quality', (image) => image.jpeg({ quality: 20 })],
    ['out of focus', (image) => image.blur(3)],
    ['in low light', (image) => image.linear(0.2)],
    ['in low light and of a low quality', (image) => image.linear(0.3).jpeg({ quality: 20 })],
    ['without colour', (image) => image.greyscale()],
    ['in too much light', (image) => image.linear(2, 40)],
    ['of strong contrast', (image) => image.greyscale().linear(2.2, -150)],
  ])('in a photograph is not: %s', async (_, change) => {
    for (const [i, { face }] of portraits.entries()) {
      const image = sharp(FILES[i]).flatten();
      const bytes = await change(image).toBuffer();
      expect(looksDrawn(await cropsFrom(sharp(bytes)), face), FILES[i]).toBe(false);
    }
  });
});
