import type { RgbImage } from '@semblance/vision/picture';

/**
 * Splits an image into factor² interleaved ones: each has every factor-th pixel of every factor-th row, so a network
 * sees the whole face in each. The image at row i and column j of the result begins at row i and column j.
 * FaceFusion calls it "pixel boost" (`implode_pixel_boost` in its `processors/pixel_boost.py`).
 * @param image whose sides are multiples of the factor
 */
export function splitPixels(image: RgbImage, factor: number): RgbImage[] {
  if (factor === 1) return [image];
  const width = image.width / factor;
  const height = image.height / factor;
  return Array.from({ length: factor ** 2 }, (_, part) => {
    const data = new Float32Array(width * height * 3);
    const [row, column] = [Math.floor(part / factor), part % factor];
    for (let y = 0, o = 0; y < height; y++) {
      for (let x = 0; x < width; x++, o += 3) {
        const i = ((y * factor + row) * image.width + x * factor + column) * 3;
        for (let c = 0; c < 3; c++) data[o + c] = image.data[i + c] as number;
      }
    }
    return { width, height, data };
  });
}

/** Joins what {@link splitPixels} made, all of one size. */
export function joinPixels(parts: readonly RgbImage[]): RgbImage {
  const [first] = parts;
  if (!first) throw new Error('there is no part of an image');
  if (parts.length === 1) return first;
  const factor = Math.sqrt(parts.length);
  const width = first.width * factor;
  const height = first.height * factor;
  const data = new Float32Array(width * height * 3);
  for (const [part, image] of parts.entries()) {
    const [row, column] = [Math.floor(part / factor), part % factor];
    for (let y = 0, i = 0; y < image.height; y++) {
      for (let x = 0; x < image.width; x++, i += 3) {
        const o = ((y * factor + row) * width + x * factor + column) * 3;
        for (let c = 0; c < 3; c++) data[o + c] = image.data[i + c] as number;
      }
    }
  }
  return { width, height, data };
}
