import type { Picture } from '@semblance/engine-api/picture';
import { seeded } from '@semblance/testkit/sound/random';
import type { Face } from '@semblance/vision/face-mesh';
import sharp, { type Sharp } from 'sharp';

/** Longest side of a picture that is collected from, in pixels. */
const LONGEST = 640;
/** Mesh points around the lower half of a face, which a mask covers. */
const LOWER_HALF = [
  234, 93, 132, 58, 172, 136, 150, 149, 176, 148, 152, 377, 400, 378, 379, 365, 397, 288, 361, 323, 454, 6,
];
const MASKS = ['#5aa0e6', '#f0f0f0', '#1e1e1e', '#c83c3c'];

type Change = (image: Sharp, size: { width: number; height: number }, random: () => number) => Sharp;

/** Changes of a picture under which a face stays a face, and a picture without one stays without. */
const CHANGES: Readonly<Record<string, Change>> = {
  plain: (image) => image,
  mirrored: (image) => image.flop(),
  tilted: (image) => image.rotate(20, { background: '#808080' }),
  small: (image) => image.resize(90),
  blurred: (image) => image.blur(3),
  dark: (image) => image.linear(0.2, 0),
  grey: (image) => image.greyscale().toColourspace('srgb'),
  part: partOf,
  part2: partOf,
  part3: partOf,
};

function partOf(
  image: Sharp,
  { width, height }: { width: number; height: number },
  random: () => number,
): Sharp {
  const share = 0.35 + 0.35 * random();
  const part = { width: Math.round(width * share), height: Math.round(height * share) };
  const left = Math.floor(random() * (width - part.width));
  const top = Math.floor(random() * (height - part.height));
  return image.extract({ left, top, ...part }).resize(480, 480, { fit: 'inside' });
}

export const VARIANTS = Object.keys(CHANGES);

/** Reads a picture in one of its {@link VARIANTS}. @param seed decides what is random in it */
export async function variant(file: string, name: string, seed: number): Promise<Picture> {
  const change = CHANGES[name];
  if (!change) throw new Error(`no variant ${name}`);
  const { data, info } = await sharp(file)
    .rotate()
    .flatten({ background: '#ece9e4' })
    .toColourspace('srgb')
    .removeAlpha()
    .resize(LONGEST, LONGEST, { fit: 'inside', withoutEnlargement: true })
    .raw()
    .toBuffer({ resolveWithObject: true });
  return rawOf(change(sharp(data, { raw: info }), info, seeded(seed)));
}

/** Draws a mask over the lower half of a face. */
export function masked(picture: Picture, face: Face, seed: number): Promise<Picture> {
  const { width, height, channels, data } = picture;
  const at = (i: number): string => `${face.points[i * 3]},${face.points[i * 3 + 1]}`;
  const outline = LOWER_HALF.map(at).join(' ');
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><polygon points="${outline}" fill="${MASKS[seed % MASKS.length]}"/></svg>`;
  const image = sharp(data as Uint8Array, { raw: { width, height, channels: channels as 1 | 3 } });
  return rawOf(image.composite([{ input: Buffer.from(svg) }]));
}

async function rawOf(image: Sharp): Promise<Picture> {
  const { data, info } = await image
    .removeAlpha()
    .toColourspace('srgb')
    .raw()
    .toBuffer({ resolveWithObject: true });
  const { width, height, channels } = info;
  return { width, height, channels: channels as 1 | 3, data: new Uint8Array(data) };
}
