import type { Picture } from '@semblance/engine-api/picture';
import type { ColorTags, VideoFrame } from '@semblance/media/types';
import { evenRect, type Rect, regionToRgb, rgbToRegion } from '@semblance/media/yuv';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';

type Frame = Pick<VideoFrame, 'width' | 'height' | 'data'>;
type Colors = Pick<ColorTags, 'range' | 'space'>;

/** Margin of the models' crops around a face, as a share of its extent. */
const REACH = 0.4;
const SMALLEST = 16;

/** The surroundings of a face in a frame. */
interface FramePart {
  readonly rect: Rect;
  readonly picture: ReturnType<typeof regionToRgb>;
  /** The face in pixels of the part. */
  readonly face: Face;
}

/** Returns the surroundings of a face in a frame, as RGB; undefined when too little of it is in the frame. */
export function partAround(frame: Frame, face: Face, colors: Colors): FramePart | undefined {
  const xs = face.points.filter((_, i) => i % 3 === 0);
  const ys = face.points.filter((_, i) => i % 3 === 1);
  const [left, top, right, bottom] = [least(xs), least(ys), most(xs), most(ys)];
  const margin = REACH * Math.max(right - left, bottom - top);
  const box = {
    x: left - margin,
    y: top - margin,
    width: right - left + 2 * margin,
    height: bottom - top + 2 * margin,
  };
  const rect = evenRect(box, frame);
  if (rect.width < SMALLEST || rect.height < SMALLEST) return undefined;
  return { rect, picture: regionToRgb(frame, rect, colors), face: shifted(face, -rect.x, -rect.y) };
}

/**
 * Changes the surroundings of a face in a frame, as RGB. Pixels that `edit` does not change keep the bytes of the
 * frame.
 * @param edit receives the part of the frame, the face in pixels of that part, and where the part lies
 */
export async function editAround(
  frame: Frame,
  face: Face,
  colors: Colors,
  edit: (picture: Picture, face: Face, rect: Rect) => Promise<void>,
): Promise<void> {
  const part = partAround(frame, face, colors);
  if (!part) return;
  const { rect, picture } = part;
  const before = picture.data.slice();
  await edit(picture, part.face, rect);
  rgbToRegion(frame, rect, picture.data, colors, changedPixels(before, picture.data, rect.width));
}

/** Returns 255 where a pixel has changed. */
function changedPixels(before: Uint8Array, after: Uint8Array, width: number): Uint8Array {
  const changed = new Uint8Array(before.length / 3);
  for (let start = 0; start < changed.length; start += width) {
    const [from, to] = [start * 3, (start + width) * 3];
    if (Buffer.compare(before.subarray(from, to), after.subarray(from, to)) === 0) continue;
    for (let pixel = start, i = from; i < to; pixel++, i += 3) {
      const same = before[i] === after[i] && before[i + 1] === after[i + 1] && before[i + 2] === after[i + 2];
      if (!same) changed[pixel] = 255;
    }
  }
  return changed;
}

function shifted(face: Face, dx: number, dy: number): Face {
  const points = face.points.map((value, i) => value + (i % 3 === 0 ? dx : i % 3 === 1 ? dy : 0));
  return faceFromPoints(points, face.score);
}

function least(values: Float32Array): number {
  return values.reduce((a, b) => Math.min(a, b), Infinity);
}

function most(values: Float32Array): number {
  return values.reduce((a, b) => Math.max(a, b), -Infinity);
}
