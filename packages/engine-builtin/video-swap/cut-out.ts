import { evenRect, type Rect } from '@semblance/media/yuv';
import type { Face } from '@semblance/vision/face-mesh';
import { extent, type Frame } from './frame-part.ts';

/** Returns a copy, in shared memory, of the part of a frame that an analysis reads. */
export function cutOut(frame: Frame, face: Face): { frame: Frame; x: number; y: number } {
  const { left, top, right, bottom } = extent(face.points);
  const margin = 0.15 * face.width;
  const wanted = { x: left - margin, y: top - margin };
  const rect: Rect = evenRect(
    { ...wanted, width: right + margin - wanted.x, height: bottom + margin - wanted.y },
    frame,
  );
  const { x, y, width, height } = rect;
  const data = new Uint8Array(new SharedArrayBuffer((width * height * 3) / 2));
  let to = 0;
  const copy = (at: number, stride: number, shift: 0 | 1): void => {
    for (let row = y >> shift; row < (y + height) >> shift; row++, to += width >> shift) {
      const from = at + row * stride + (x >> shift);
      data.set(frame.data.subarray(from, from + (width >> shift)), to);
    }
  };
  const luma = frame.width * frame.height;
  copy(0, frame.width, 0);
  copy(luma, frame.width >> 1, 1);
  copy(luma + luma / 4, frame.width >> 1, 1);
  return { frame: { width, height, data }, x, y };
}
