import { type RgbImage, sampleRgb } from '@semblance/vision/picture';

/**
 * Returns an image in another size, each axis by its own factor. Enlarging interpolates; shrinking averages as many
 * interpolated samples as a new pixel covers.
 */
export function resized(image: RgbImage, width: number, height: number): RgbImage {
  if (image.width === width && image.height === height) return image;
  const [acrossX, acrossY] = [image.width / width, image.height / height];
  const [tapsX, tapsY] = [Math.max(1, Math.ceil(acrossX)), Math.max(1, Math.ceil(acrossY))];
  const data = new Float32Array(width * height * 3);
  const rgb = new Float32Array(3);
  const share = 1 / (tapsX * tapsY);
  for (let y = 0, o = 0; y < height; y++) {
    for (let x = 0; x < width; x++, o += 3) {
      for (let t = 0; t < tapsX * tapsY; t++) {
        const u = (x + ((t % tapsX) + 0.5) / tapsX) * acrossX;
        const v = (y + (Math.floor(t / tapsX) + 0.5) / tapsY) * acrossY;
        sampleRgb(image, u, v, rgb);
        for (let c = 0; c < 3; c++) data[o + c] = (data[o + c] as number) + share * (rgb[c] as number);
      }
    }
  }
  return { width, height, data };
}
