import type { Picture } from '@semblance/engine-api/picture';
import { type CropTransform, cropRgb, type RgbImage } from '@semblance/vision/picture';

let room = new Float32Array(0);

/**
 * Returns a crop as `cropRgb` does, in memory that the next call writes again. So it must be read before anything else
 * runs, as a conversion to tensors does: new memory of this size for each frame costs more than the crop.
 */
export function briefCrop(
  picture: Picture,
  transform: CropTransform,
  width: number,
  height: number,
): RgbImage {
  const length = width * height * 3;
  if (room.length < length) room = new Float32Array(length);
  return cropRgb(picture, transform, width, height, undefined, room.subarray(0, length));
}
