import type { Picture } from '@semblance/engine-api/picture';
import { type Face, placeOf } from '@semblance/vision/face-mesh';
import { cropRgb, squareCrop } from '@semblance/vision/picture';
import sharp from 'sharp';

/** Side of a crop, in pixels, and relative to the extent of the face. */
const SIDE = 192;
const SCALE = 1.7;

/** Returns a face with some of what is around it, as JPEG in Base64. */
export async function jpegOf(picture: Picture, face: Face): Promise<string> {
  const { center, side } = placeOf(face);
  const { data } = cropRgb(picture, squareCrop(center, SCALE * side, 0, SIDE), SIDE, SIDE);
  const pixels = Buffer.from(Uint8ClampedArray.from(data, Math.round).buffer);
  const jpeg = await sharp(pixels, { raw: { width: SIDE, height: SIDE, channels: 3 } })
    .jpeg({ quality: 85 })
    .toBuffer();
  return jpeg.toString('base64');
}
