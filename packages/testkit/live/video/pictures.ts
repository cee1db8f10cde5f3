import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { cropRgb } from '@semblance/vision/picture';
import sharp from 'sharp';
import { cropOf, readPicture, type View } from '../../engine-builtin/video-swap/clips.ts';

const DEMO = join(dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')), '..', 'demo');
/** Photograph of several people. */
export const GROUP = join(DEMO, 'sample5.jpg');
/** A picture in which somebody without glasses looks ahead, at (1544, 339). */
export const LONG_HAIR = join(DEMO, 'sample1.jpg');

const SIZE = { width: 480, height: 360 };
export type Rgb = Float32Array;
export type Change = (rgb: Rgb, width: number, height: number) => void;

/** Returns a picture as a camera sends it: a JPEG. @param change changes its pixels before the encoding */
export async function filmed(
  picture: Picture,
  view: View,
  change: Change = () => undefined,
  { width, height } = SIZE,
): Promise<Buffer> {
  const { data } = cropRgb(picture, cropOf(view, { width, height }), width, height);
  change(data, width, height);
  return sharp(Uint8ClampedArray.from(data), { raw: { width, height, channels: 3 } })
    .jpeg({ quality: 90 })
    .toBuffer();
}

export async function pixelsOf(jpeg: Uint8Array): Promise<Picture & { readonly data: Uint8Array }> {
  const { data, info } = await sharp(jpeg).toColourspace('srgb').raw().toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, channels: 3, data: new Uint8Array(data) };
}

/** Returns the mean difference of two pictures within a part of them, in levels. */
export async function difference(
  a: Uint8Array,
  b: Uint8Array,
  { x, y, width, height }: { x: number; y: number; width: number; height: number },
): Promise<number> {
  const [one, other] = [await pixelsOf(a), await pixelsOf(b)];
  let sum = 0;
  for (let row = y; row < y + height; row++) {
    const at = (row * one.width + x) * 3;
    for (let i = at; i < at + width * 3; i++) {
      sum += Math.abs((one.data[i] as number) - (other.data[i] as number));
    }
  }
  return sum / (width * height * 3);
}

export { readPicture };
