import type { Rect } from '@semblance/media/yuv';
import type { Colors, Frame } from '../video-swap/frame-part.ts';

/** Brightness and colour as in JPEG (JFIF: ITU-R BT.601 in full range). */
export const JPEG_COLORS: Colors = { range: 'pc', space: 'smpte170m' };

/**
 * Converts pixels to a 4:2:0 frame in integers, because all frames pass here, most of them more than once a second.
 * An odd last row or column is dropped.
 */
export function toFrame(rgb: Uint8Array, stride: number, frame: Frame): void {
  const { width, height, data } = frame;
  const half = width >> 1;
  const uAt = width * height;
  const vAt = uAt + uAt / 4;
  for (let y = 0; y < height; y += 2) {
    let above = y * stride * 3;
    let below = above + stride * 3;
    let to = y * width;
    let chroma = (y >> 1) * half;
    for (let x = 0; x < half; x++, above += 6, below += 6, to += 2, chroma++) {
      const r0 = rgb[above] as number;
      const g0 = rgb[above + 1] as number;
      const b0 = rgb[above + 2] as number;
      const r1 = rgb[above + 3] as number;
      const g1 = rgb[above + 4] as number;
      const b1 = rgb[above + 5] as number;
      const r2 = rgb[below] as number;
      const g2 = rgb[below + 1] as number;
      const b2 = rgb[below + 2] as number;
      const r3 = rgb[below + 3] as number;
      const g3 = rgb[below + 4] as number;
      const b3 = rgb[below + 5] as number;
      // 0.299, 0.587 and 0.114 in units of 1/65536.
      data[to] = (19595 * r0 + 38470 * g0 + 7471 * b0 + 32768) >> 16;
      data[to + 1] = (19595 * r1 + 38470 * g1 + 7471 * b1 + 32768) >> 16;
      data[to + width] = (19595 * r2 + 38470 * g2 + 7471 * b2 + 32768) >> 16;
      data[to + width + 1] = (19595 * r3 + 38470 * g3 + 7471 * b3 + 32768) >> 16;
      const r = r0 + r1 + r2 + r3;
      const g = g0 + g1 + g2 + g3;
      const b = b0 + b1 + b2 + b3;
      // Combines four pixels. The constant contains 128 and the rounding, which keeps the result below 256.
      data[uAt + chroma] = (-11058 * r - 21710 * g + 32768 * b + 33685503) >> 18;
      data[vAt + chroma] = (32768 * r - 27439 * g - 5329 * b + 33685503) >> 18;
    }
  }
}

/** Copies the drawn parts of a frame back into the pixels; all other pixels stay. */
export function writeBack(
  rgb: Uint8Array,
  stride: number,
  frame: Frame,
  before: Uint8Array,
  rect: Rect,
): void {
  const { width, height, data } = frame;
  const half = width >> 1;
  const uAt = width * height;
  const vAt = uAt + uAt / 4;
  for (let y = rect.y; y < rect.y + rect.height; y += 2) {
    let at = y * width + rect.x;
    let chroma = (y >> 1) * half + (rect.x >> 1);
    for (let x = rect.x; x < rect.x + rect.width; x += 2, at += 2, chroma++) {
      const colour =
        data[uAt + chroma] !== before[uAt + chroma] || data[vAt + chroma] !== before[vAt + chroma];
      if (
        !colour &&
        data[at] === before[at] &&
        data[at + 1] === before[at + 1] &&
        data[at + width] === before[at + width] &&
        data[at + width + 1] === before[at + width + 1]
      )
        continue;
      const u = (data[uAt + chroma] as number) - 128;
      const v = (data[vAt + chroma] as number) - 128;
      const red = (91881 * v + 32768) >> 16;
      const green = (-22554 * u - 46802 * v + 32768) >> 16;
      const blue = (116130 * u + 32768) >> 16;
      for (let k = 0; k < 4; k++) {
        const level = data[at + (k & 1) + (k >> 1) * width] as number;
        const to = ((y + (k >> 1)) * stride + x + (k & 1)) * 3;
        rgb[to] = clamp(level + red);
        rgb[to + 1] = clamp(level + green);
        rgb[to + 2] = clamp(level + blue);
      }
    }
  }
}

function clamp(value: number): number {
  return value <= 0 ? 0 : value >= 255 ? 255 : value;
}
