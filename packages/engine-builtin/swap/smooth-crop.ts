import type { Picture } from '@semblance/engine-api/picture';
import { type CropTransform, cropRgb, type RgbImage } from '@semblance/vision/picture';

/** Pixels of the picture per pixel of a patch between which a patch is cut finer and averaged. */
const SHRUNK = [1.15, 2.4] as const;

/**
 * Cuts a square out. Shrunk by less than two it is cut finer and then averaged, because single pixels of the picture
 * would give thin lines, such as nostrils and lashes, steps.
 */
export function cropSmooth(picture: Picture, crop: CropTransform, size: number): RgbImage {
  if (crop.scale <= SHRUNK[0] || crop.scale >= SHRUNK[1]) return cropRgb(picture, crop, size, size);
  const fine = cropRgb(picture, { ...crop, scale: crop.scale / 2 }, 2 * size, 2 * size).data;
  const data = new Float32Array(size * size * 3);
  const row = 6 * size;
  for (let y = 0, o = 0; y < size; y++)
    for (let i = 2 * y * row, end = i + row; i < end; i += 3)
      for (const last = i + 3; i < last; i++, o++)
        data[o] =
          ((fine[i] as number) +
            (fine[i + 3] as number) +
            (fine[i + row] as number) +
            (fine[i + row + 3] as number)) /
          4;
  return { width: size, height: size, data };
}
