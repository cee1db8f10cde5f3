import type { Rect } from '@semblance/media/yuv';
import type { Frame } from './frame-part.ts';

/** A part of a frame before anything is drawn into it. */
export interface Before extends Rect {
  readonly luma: Uint8Array;
  readonly u: Uint8Array;
  readonly v: Uint8Array;
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

/** Sums three vertically spaced pixels for each column; the rows are two apart. */
export function sumRows({ width, height, luma }: Before, y: number, out: Int32Array): void {
  const middle = y * width;
  const above = y < 2 ? 0 : middle - 2 * width;
  const below = y + 2 < height ? middle + 2 * width : (height - 1) * width;
  for (let x = 0; x < width; x++) {
    out[x] = (luma[above + x] as number) + (luma[middle + x] as number) + (luma[below + x] as number);
  }
}
