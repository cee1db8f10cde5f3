import type { Picture } from '@semblance/engine-api/picture';
import type { ColorTags, VideoFrame } from '@semblance/media/types';
import { type Rect, regionToRgb } from '@semblance/media/yuv';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';

export type Frame = Pick<VideoFrame, 'width' | 'height' | 'data'>;
export type Colors = Pick<ColorTags, 'range' | 'space'>;

/** A part of a frame as reduced RGB, and its position: frame = origin + step × part. */
export interface FramePart {
  readonly picture: Picture;
  readonly x: number;
  readonly y: number;
  readonly step: number;
}

/** A frame with its number in the video. */
export interface IndexedFrame extends Frame {
  readonly index: number;
}

/** Least shorter side, in pixels, of the picture in which faces are searched. */
const SEARCH_SIDE = 360;

/** Returns a whole frame, no finer than the face detector can use. */
export function wholeFrame(frame: Frame, color: Colors): FramePart {
  const { width, height } = frame;
  return shrunk(frame, { x: 0, y: 0, width, height }, stepFor(Math.min(width, height) / SEARCH_SIDE), color);
}

/** Returns the bounding box of a mesh. */
export function extent(points: Float32Array): { left: number; top: number; right: number; bottom: number } {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 3) {
    left = Math.min(left, points[i] as number);
    right = Math.max(right, points[i] as number);
    top = Math.min(top, points[i + 1] as number);
    bottom = Math.max(bottom, points[i + 1] as number);
  }
  return { left, top, right, bottom };
}

/** Converts a face from frame pixels to part pixels, and back. */
export function intoPart(face: Face, { x, y, step }: FramePart): Face {
  return placed(face, -x / step, -y / step, 1 / step);
}

export function outOfPart(face: Face, { x, y, step }: FramePart): Face {
  return placed(face, x, y, step);
}

/** Returns a face scaled and then shifted. */
export function placed(face: Face, dx: number, dy: number, scale: number): Face {
  const points = new Float32Array(face.points.length);
  for (let i = 0; i < points.length; i += 3) {
    points[i] = (face.points[i] as number) * scale + dx;
    points[i + 1] = (face.points[i + 1] as number) * scale + dy;
    points[i + 2] = (face.points[i + 2] as number) * scale;
  }
  return faceFromPoints(points, face.score);
}

function stepFor(reduction: number): number {
  if (reduction < 2) return 1;
  return reduction < 4 ? 2 : 4;
}

/** Averages squares of `step` pixels, which reduces noise for the networks and the cost of conversion. */
export function shrunk(frame: Frame, rect: Rect, step: number, color: Colors): FramePart {
  if (step === 1) return { picture: regionToRgb(frame, rect, color), x: rect.x, y: rect.y, step };
  const width = 2 * Math.max(1, Math.floor(rect.width / step / 2));
  const height = 2 * Math.max(1, Math.floor(rect.height / step / 2));
  const small = { width, height, data: new Uint8Array((width * height * 3) / 2) };
  const luma = frame.width * frame.height;
  const planes = [
    { from: 0, stride: frame.width, x: rect.x, y: rect.y, to: 0, width, height },
    ...[0, 1].map((k) => ({
      from: luma + (k * luma) / 4,
      stride: frame.width / 2,
      x: rect.x / 2,
      y: rect.y / 2,
      to: width * height + (k * width * height) / 4,
      width: width / 2,
      height: height / 2,
    })),
  ];
  for (const plane of planes) average(frame.data, small.data, plane, step);
  return {
    picture: regionToRgb(small, { x: 0, y: 0, width, height }, color),
    x: rect.x,
    y: rect.y,
    step,
  };
}

function average(
  data: Uint8Array,
  out: Uint8Array,
  plane: { from: number; stride: number; x: number; y: number; to: number; width: number; height: number },
  step: number,
): void {
  const { stride, width, height } = plane;
  const round = (step * step) >> 1;
  const shift = step === 2 ? 2 : 4;
  let to = plane.to;
  for (let y = 0; y < height; y++) {
    let from = plane.from + (plane.y + y * step) * stride + plane.x;
    for (let x = 0; x < width; x++, from += step) {
      let sum = round;
      if (step === 2) {
        sum +=
          (data[from] as number) +
          (data[from + 1] as number) +
          (data[from + stride] as number) +
          (data[from + stride + 1] as number);
      } else {
        for (let v = 0, row = from; v < step; v++, row += stride) {
          for (let u = 0; u < step; u++) sum += data[row + u] as number;
        }
      }
      out[to++] = sum >> shift;
    }
  }
}
