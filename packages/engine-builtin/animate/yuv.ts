import type { Planes } from './openings.ts';

/** Returns the planes of a frame in one block: Y, then U and V of half the size. */
export function planesOf(data: Uint8Array, width: number, height: number): Planes {
  const luma = width * height;
  const chroma = luma / 4;
  return {
    y: { width, height, data: data.subarray(0, luma) },
    u: { width: width / 2, height: height / 2, data: data.subarray(luma, luma + chroma) },
    v: { width: width / 2, height: height / 2, data: data.subarray(luma + chroma, luma + 2 * chroma) },
  };
}

/** Converts red, green and blue (0–255) to Y, U and V of BT.709, limited range; chroma is the mean of four pixels. */
export function rgbToYuv(rgb: Uint8Array, width: number, height: number): Uint8Array {
  const out = new Uint8Array((width * height * 3) / 2);
  const { y, u, v } = planesOf(out, width, height);
  for (let row = 0; row < height; row += 2) {
    for (let column = 0; column < width; column += 2) {
      const first = row * width + column;
      let r = 0;
      let g = 0;
      let b = 0;
      for (let k = 0; k < 4; k++) {
        const at = first + (k & 1) + (k >> 1) * width;
        const red = rgb[at * 3] as number;
        const green = rgb[at * 3 + 1] as number;
        const blue = rgb[at * 3 + 2] as number;
        y.data[at] = 16.5 + 0.182586 * red + 0.614231 * green + 0.062007 * blue;
        r += red;
        g += green;
        b += blue;
      }
      const i = ((row >> 1) * width) / 2 + (column >> 1);
      u.data[i] = 128.5 + (-0.100644 * r - 0.338572 * g + 0.439216 * b) / 4;
      v.data[i] = 128.5 + (0.439216 * r - 0.398942 * g - 0.040274 * b) / 4;
    }
  }
  return out;
}
