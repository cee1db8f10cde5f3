import sharp from 'sharp';
import { damaged, readJpegHeader } from './jpeg-header.ts';
import { PICTURE_LIMITS } from './types.ts';

/** A decoded picture: upright, sRGB, three bytes per pixel. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array;
  /** Whether the file had another orientation. */
  readonly turned: boolean;
}

/** JPEG quality near that of cameras and browsers; the area outside the face is encoded once more. */
const QUALITY = 88;

/** @throws LiveVideoError `bad_frame` */
export async function decodePicture(picture: Uint8Array): Promise<Pixels> {
  const { orientation } = readJpegHeader(picture);
  try {
    const { data, info } = await sharp(picture, {
      failOn: 'error',
      limitInputPixels: PICTURE_LIMITS.pixels,
      sequentialRead: true,
    })
      .autoOrient()
      .toColourspace('srgb')
      .removeAlpha()
      .raw({ depth: 'uchar' })
      .toBuffer({ resolveWithObject: true });
    const { width, height, channels } = info;
    if (channels !== 3) throw new Error(`a picture of ${channels} channels`);
    return { width, height, data, turned: orientation !== 1 };
  } catch (error) {
    throw damaged(error);
  }
}

/**
 * Optimised Huffman tables would take a third of all the time and save few bytes, so the default ones are used.
 * @param xmp metadata of the picture
 */
export async function encodePicture(
  { width, height, data }: Omit<Pixels, 'turned'>,
  xmp?: string,
): Promise<Uint8Array> {
  const picture = sharp(data, { raw: { width, height, channels: 3 } });
  if (xmp !== undefined) picture.withXmp(xmp);
  return picture.jpeg({ quality: QUALITY, optimiseCoding: false }).toBuffer();
}
