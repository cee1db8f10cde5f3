import type { Picture } from '@semblance/engine-api/picture';
import { normal, seeded } from '@semblance/testkit/sound/random';
import type { Face } from '@semblance/vision/face-mesh';
import sharp, { type Sharp } from 'sharp';
import { makeUp, painted } from './art.ts';
import { level, linear } from './colour.ts';
import { grain } from './noise.ts';

type Degrade = (picture: Picture, face: Face, seed: number) => Picture | Promise<Picture>;

/** Face widths of the smallest and the largest cases, in pixels. */
const SMALL = 90;
const LARGE = 1500;

const WAYS = {
  'low-light': (picture, _face, seed) => lowLight(picture, seed),
  'red-light': (picture, face) => sideLight(picture, face, [1.25, 0.28, 0.22]),
  'green-light': (picture, face) => sideLight(picture, face, [0.35, 1.15, 0.4]),
  'blue-light': (picture, face) => sideLight(picture, face, [0.28, 0.42, 1.35]),
  noise: (picture, _face, seed) => noisy(picture, seed),
  blur: (picture, face) => filtered(picture, (image) => image.blur(Math.max(0.6, face.width * 0.016))),
  'motion-blur': motionBlur,
  'jpeg-20': (picture) => jpeg(picture, 20),
  grey: (picture) => perPixel(picture, (r, g, b) => grey(r, g, b, [1, 1, 1])),
  sepia: (picture) => perPixel(picture, (r, g, b) => grey(r, g, b, [1.07, 0.96, 0.78])),
  overexposed: (picture) =>
    perPixel(picture, (r, g, b) =>
      [r, g, b].map((v) => level(1.06 * (1 - Math.exp(-3.2 * linear(v)))) as number),
    ),
  'small-face': (picture, face) => resized(picture, SMALL / face.width),
  'large-face': (picture, face) => resized(around(picture, face), LARGE / face.width),
  'tilted-25': (picture) => turned(picture, 25),
  'tilted-90': (picture) => turned(picture, 90),
  mirrored: (picture) => filtered(picture, (image) => image.flop()),
  'make-up': makeUp,
  painted,
} satisfies Record<string, Degrade>;

export type DegradationName = keyof typeof WAYS;

/** Names of all conditions that {@link degrade} makes. */
export const DEGRADATIONS = Object.keys(WAYS) as DegradationName[];

/**
 * Returns the picture in a worse condition. Its size may differ, so the face must be found in it anew. The same seed
 * gives the same bytes.
 * @param picture RGB with 8 bits
 * @param face its face, whose width scales blur and size
 */
export async function degrade(
  name: DegradationName,
  picture: Picture,
  face: Face,
  seed: number,
): Promise<Picture> {
  return WAYS[name](picture, face, seed);
}

function perPixel(
  picture: Picture,
  change: (r: number, g: number, b: number, i: number) => ArrayLike<number>,
): Picture {
  const data = new Uint8Array(picture.data.length);
  for (let p = 0; p < data.length; p += 3) {
    const out = change(
      picture.data[p] as number,
      picture.data[p + 1] as number,
      picture.data[p + 2] as number,
      p / 3,
    );
    for (let c = 0; c < 3; c++) data[p + c] = Math.min(255, Math.max(0, Math.round(out[c] as number)));
  }
  return { ...picture, channels: 3, data };
}

function grey(r: number, g: number, b: number, tone: readonly number[]): number[] {
  const y = 0.299 * r + 0.587 * g + 0.114 * b;
  return tone.map((factor) => y * factor);
}

/** A tenth of the light, and the noise of a sensor that makes up for it: of photons, and of reading. */
function lowLight(picture: Picture, seed: number): Picture {
  const random = seeded(seed);
  const soft = [0, 1, 2].map(() => grain(random, picture.width, picture.height));
  return perPixel(picture, (r, g, b, i) =>
    [r, g, b].map((value, c) => {
      const light = 0.1 * linear(value) * ([1.08, 1, 0.82][c] as number);
      const read = soft[c]?.data[i] as number;
      return level(Math.max(0, light + read * (0.0016 + 0.011 * Math.sqrt(light))));
    }),
  );
}

/** Light of one colour from the left of the picture, while the room's own light is dim. */
function sideLight(picture: Picture, face: Face, colour: readonly number[]): Picture {
  const { points, width } = face;
  const middle = points[12] as number;
  return perPixel(picture, (r, g, b, i) => {
    const t = ((i % picture.width) - middle) / width;
    const lit = 1 / (1 + Math.exp(4.5 * t));
    return [r, g, b].map((value, c) => level(linear(value) * (0.2 + (colour[c] as number) * lit)));
  });
}

function noisy(picture: Picture, seed: number): Picture {
  const random = seeded(seed);
  return perPixel(picture, (r, g, b) => [r, g, b].map((value) => value + 16 * normal(random)));
}

/** The mean along a line, in the direction of the seed. */
function motionBlur(picture: Picture, face: Face, seed: number): Picture {
  const angle = Math.PI * seeded(seed)();
  const length = Math.max(3, 0.07 * face.width);
  const taps = Math.ceil(length) + 1;
  const [dx, dy] = [Math.cos(angle), Math.sin(angle)];
  const sums = new Float32Array(picture.data.length);
  for (let tap = 0; tap < taps; tap++) {
    const along = (tap / (taps - 1) - 0.5) * length;
    const [mx, my] = [Math.round(dx * along), Math.round(dy * along)];
    for (let y = 0, o = 0; y < picture.height; y++) {
      const row = Math.min(picture.height - 1, Math.max(0, y + my)) * picture.width;
      for (let x = 0; x < picture.width; x++) {
        const from = (row + Math.min(picture.width - 1, Math.max(0, x + mx))) * 3;
        for (let c = 0; c < 3; c++, o++) sums[o] = (sums[o] as number) + (picture.data[from + c] as number);
      }
    }
  }
  return { ...picture, channels: 3, data: Uint8Array.from(sums, (sum) => Math.round(sum / taps)) };
}

function image(picture: Picture): Sharp {
  return sharp(picture.data, { raw: { width: picture.width, height: picture.height, channels: 3 } });
}

async function filtered(picture: Picture, change: (image: Sharp) => Sharp): Promise<Picture> {
  const { data, info } = await change(image(picture))
    .removeAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, channels: 3, data: new Uint8Array(data) };
}

async function jpeg(picture: Picture, quality: number): Promise<Picture> {
  const file = await image(picture).jpeg({ quality }).toBuffer();
  const { data, info } = await sharp(file).removeAlpha().raw().toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, channels: 3, data: new Uint8Array(data) };
}

function resized(picture: Picture, by: number): Promise<Picture> {
  const width = Math.max(1, Math.round(picture.width * by));
  const height = Math.max(1, Math.round(picture.height * by));
  return filtered(picture, (source) => source.resize(width, height, { fit: 'fill', kernel: 'lanczos3' }));
}

/** Returns the part within 1.1 face widths of the nose, so that an enlargement stays below 12 megapixels. */
function around(picture: Picture, face: Face): Picture {
  const [cx, cy] = [face.points[12] as number, face.points[13] as number];
  const reach = 1.1 * face.width;
  const left = Math.max(0, Math.floor(cx - reach));
  const top = Math.max(0, Math.floor(cy - reach));
  const width = Math.min(picture.width, Math.ceil(cx + reach)) - left;
  const height = Math.min(picture.height, Math.ceil(cy + reach)) - top;
  const data = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) {
    const from = ((top + y) * picture.width + left) * 3;
    data.set(picture.data.subarray(from, from + width * 3), y * width * 3);
  }
  return { width, height, channels: 3, data };
}

/** Turns the picture clockwise; the corners that come into view take the mean colour of its border. */
function turned(picture: Picture, degrees: number): Promise<Picture> {
  const sum = [0, 0, 0];
  for (let x = 0; x < picture.width; x++) {
    for (let c = 0; c < 3; c++) sum[c] = (sum[c] as number) + (picture.data[x * 3 + c] as number);
  }
  const [r, g, b] = sum.map((value) => Math.round(value / picture.width)) as [number, number, number];
  return filtered(picture, (source) => source.rotate(degrees, { background: { r, g, b } }));
}
