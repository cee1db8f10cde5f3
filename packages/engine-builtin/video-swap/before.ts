import type { Rect } from '@semblance/media/yuv';
import { betweenBytes } from '@semblance/vision/plane/cubic';
import type { ColourAt } from '../swap/lip-edge.ts';
import type { Frame } from './frame-part.ts';

/** A part of a frame before anything is drawn into it. */
export interface Before extends Rect {
  readonly luma: Uint8Array;
  readonly u: Uint8Array;
  readonly v: Uint8Array;
}

/** Weights of the differences of U and V that make them like those of blue and red from brightness. */
const OF_U = 1.9;
const OF_V = 1.6;

/** Returns the colours of a part of a frame. @param scale pixels of the frame per unit of the places that are asked */
export function coloursBefore({ width, height, luma, u, v }: Before, scale: number): ColourAt {
  const half = { width: width >> 1, height: height >> 1 };
  return (x, y, out) => {
    out[0] = sampleBytes(luma, { width, height }, x * scale, y * scale);
    out[1] = OF_V * sampleBytes(v, half, (x * scale) / 2, (y * scale) / 2);
    out[2] = OF_U * sampleBytes(u, half, (x * scale) / 2, (y * scale) / 2);
  };
}

/** Returns the value between pixels of a plane. */
export function sampleBytes(
  data: Uint8Array,
  { width, height }: { readonly width: number; readonly height: number },
  x: number,
  y: number,
): number {
  const px = Math.min(width - 1, Math.max(0, x - 0.5));
  const py = Math.min(height - 1, Math.max(0, y - 0.5));
  const x0 = px | 0;
  const y0 = py | 0;
  const u = px - x0;
  const v = py - y0;
  const a = y0 * width + x0;
  const right = x0 + 1 < width ? 1 : 0;
  const down = y0 + 1 < height ? width : 0;
  const top = (data[a] as number) * (1 - u) + (data[a + right] as number) * u;
  const bottom = (data[a + down] as number) * (1 - u) + (data[a + down + right] as number) * u;
  return top * (1 - v) + bottom * v;
}

/** Returns the same, nearly as sharp as the plane. */
export function sharpBytes(
  data: Uint8Array,
  size: { readonly width: number; readonly height: number },
  x: number,
  y: number,
): number {
  const { width, height } = size;
  const px = x - 0.5;
  const py = y - 0.5;
  if (px < 1 || py < 1 || px >= width - 2 || py >= height - 2) return sampleBytes(data, size, x, y);
  const fx = ((px * 256) | 0) & 255;
  const fy = ((py * 256) | 0) & 255;
  return betweenBytes(data, width, (py | 0) * width + (px | 0), fx, fy) / 65_536;
}

let room = new Uint8Array(0);

/** Copies a part of a frame. The next call reuses the memory. */
export function copyOf(frame: Frame, rect: Rect): Before {
  const { data } = frame;
  const pixels = rect.width * rect.height;
  if (room.length < pixels * 1.5) room = new Uint8Array(pixels * 1.5);
  let used = 0;
  const copy = (at: number, stride: number, x: number, y: number, width: number, height: number) => {
    const out = room.subarray(used, used + width * height);
    used += out.length;
    for (let row = 0; row < height; row++) {
      const from = at + (y + row) * stride + x;
      out.set(data.subarray(from, from + width), row * width);
    }
    return out;
  };
  const { x, y, width, height } = rect;
  const half = [frame.width >> 1, x >> 1, y >> 1, width >> 1, height >> 1] as const;
  const size = frame.width * frame.height;
  return {
    ...rect,
    luma: copy(0, frame.width, x, y, width, height),
    u: copy(size, ...half),
    v: copy(size + size / 4, ...half),
  };
}

/** Writes to `out` the sum of rows y − 2, y and y + 2 for each column; beyond an edge the edge row counts. */
export function sumRows({ width, height, luma }: Before, y: number, out: Int32Array): void {
  const middle = y * width;
  const above = y < 2 ? 0 : middle - 2 * width;
  const below = y + 2 < height ? middle + 2 * width : (height - 1) * width;
  for (let x = 0; x < width; x++) {
    out[x] = (luma[above + x] as number) + (luma[middle + x] as number) + (luma[below + x] as number);
  }
}
