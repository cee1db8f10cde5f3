import type { Picture } from '@semblance/engine-api/picture';
import type { Size } from '@semblance/media/types';
import sharp from 'sharp';

/** Returns a picture of three channels at another size. */
export async function resized(picture: Picture, { width, height }: Size): Promise<Picture> {
  if (width === picture.width && height === picture.height) return picture;
  const data = await sharp(picture.data, {
    raw: { width: picture.width, height: picture.height, channels: 3 },
  })
    .resize(width, height, { fit: 'cover', kernel: 'lanczos3' })
    .raw()
    .toBuffer();
  return { width, height, channels: 3, data: new Uint8Array(data.buffer, data.byteOffset, data.length) };
}
