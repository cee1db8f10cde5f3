import sharp from 'sharp';

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
