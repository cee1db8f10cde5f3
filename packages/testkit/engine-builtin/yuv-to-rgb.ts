import { planesOf } from '@semblance/engine-builtin/internal/animate/yuv';

/** Converts a frame back to red, green and blue, as `rgbToYuv` made it. */
export function yuvToRgb(data: Uint8Array, width: number, height: number): Uint8Array {
  const out = new Uint8ClampedArray(width * height * 3);
  const { y, u, v } = planesOf(data, width, height);
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const c = ((row >> 1) * width) / 2 + (column >> 1);
      const luma = 1.164384 * ((y.data[row * width + column] as number) - 16);
      const cb = (u.data[c] as number) - 128;
      const cr = (v.data[c] as number) - 128;
      const o = (row * width + column) * 3;
      out[o] = luma + 1.792741 * cr;
      out[o + 1] = luma - 0.213249 * cb - 0.532909 * cr;
      out[o + 2] = luma + 2.112402 * cb;
    }
  }
  return new Uint8Array(out.buffer);
}
