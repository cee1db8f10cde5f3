import type { VideoFrame } from '../../../media/types.ts';
import { type FaceFinder, MAX_YAW, yaw } from '../vision/face-finder.ts';
import { type Face, faceFromPoints } from '../vision/face-mesh.ts';
import type { Picture } from '../vision/picture.ts';

/** Below this the mesh no longer lies on a face. */
const KEEP_SCORE = 0.5;
/** Half of the mesh network's crop relative to the face, and a little for the face having moved. */
const REACH = 0.82;
/** A face is looked for in a picture of at most this shorter side. */
const SEARCH_SIDE = 540;
/** Longest wait between two searches, frames: a search costs as much as many fits. */
const MAX_WAIT = 8;

type Frame = Pick<VideoFrame, 'width' | 'height' | 'data'>;

/** Follows one face through a video: fits the mesh from frame to frame, and searches again when it is lost. */
export class FaceTracker {
  readonly #finder: FaceFinder;
  readonly #checkpoint: () => void;
  #last: Face | undefined;
  #lost = false;
  #wait = 0;
  #untilSearch = 0;

  constructor(finder: FaceFinder, checkpoint: () => void) {
    this.#finder = finder;
    this.#checkpoint = checkpoint;
  }

  /** The face in the next frame, in pixels of the frame; undefined where it is not to be seen. */
  async track(frame: Frame): Promise<Face | undefined> {
    if (this.#last && !this.#lost) {
      const face = await this.#refit(frame, this.#last);
      if (face) return this.#keep(face);
      this.#lost = true;
      this.#wait = 1;
      this.#untilSearch = 0;
    }
    if (this.#untilSearch > 0) {
      this.#untilSearch--;
      return undefined;
    }
    const found = await this.#search(frame);
    if (found) return this.#keep(found);
    this.#wait = Math.min(MAX_WAIT, Math.max(1, this.#wait * 2));
    this.#untilSearch = this.#wait - 1;
    return undefined;
  }

  #keep(face: Face): Face {
    this.#last = face;
    this.#lost = false;
    this.#wait = 0;
    return face;
  }

  async #refit(frame: Frame, last: Face): Promise<Face | undefined> {
    const face = await refitFace(this.#finder, frame, last);
    return face.score < KEEP_SCORE || Math.abs(yaw(face)) > MAX_YAW ? undefined : face;
  }

  async #search(frame: Frame): Promise<Face | undefined> {
    const step = Math.max(1, Math.floor(Math.min(frame.width, frame.height) / SEARCH_SIDE));
    const picture = toRgb(frame, { left: 0, top: 0, right: frame.width, bottom: frame.height }, step);
    const faces = (await this.#finder.find(picture, this.#checkpoint)).map((face) => moved(face, 0, 0, step));
    const last = this.#last;
    if (!last) return faces[0];
    // The one that was followed before it was lost, if it is among them.
    const far = (face: Face): number =>
      Math.hypot(
        (face.points[12] as number) - (last.points[12] as number),
        (face.points[13] as number) - (last.points[13] as number),
      ) /
        last.width +
      Math.abs(Math.log(face.width / last.width));
    const nearest = faces.reduce<Face | undefined>(
      (best, face) => (best && far(best) <= far(face) ? best : face),
      undefined,
    );
    return nearest && far(nearest) < 0.8 ? nearest : faces[0];
  }
}

/** Fits the mesh of a known face again in a frame. Both in pixels of the frame. */
export async function refitFace(finder: FaceFinder, frame: Frame, face: Face): Promise<Face> {
  const { picture, left, top, step } = aroundFace(frame, face);
  const fitted = await finder.refit(picture, moved(face, -left, -top, 1 / step));
  return moved(fitted, left / step, top / step, step);
}

/** The part of a frame that the mesh network looks at. */
function aroundFace(
  frame: Frame,
  { points, roll }: Face,
): { picture: Picture; left: number; top: number; step: number } {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 3) {
    left = Math.min(left, points[i] as number);
    right = Math.max(right, points[i] as number);
    top = Math.min(top, points[i + 1] as number);
    bottom = Math.max(bottom, points[i + 1] as number);
  }
  const size = Math.max(right - left, bottom - top, 16);
  // The crop is turned with the face: what is converted holds all of it.
  const half = REACH * size * (Math.abs(Math.cos(roll)) + Math.abs(Math.sin(roll)));
  const x = (left + right) / 2;
  const y = (top + bottom) / 2;
  // Never coarser than the network's own crop: it takes 192 pixels of what is 1.5 times the face.
  const step = Math.max(1, Math.floor(size / 128));
  const even = (value: number): number => Math.floor(value) & ~1;
  const box = {
    left: Math.min(frame.width - 2, Math.max(0, even(x - half))),
    top: Math.min(frame.height - 2, Math.max(0, even(y - half))),
    right: Math.max(2, Math.min(frame.width, even(x + half) + 2)),
    bottom: Math.max(2, Math.min(frame.height, even(y + half) + 2)),
  };
  box.right = Math.max(box.right, box.left + 2);
  box.bottom = Math.max(box.bottom, box.top + 2);
  return { picture: toRgb(frame, box, step), left: box.left, top: box.top, step };
}

/** Every `step`-th pixel of part of a frame, as the networks want colours. */
export function toRgb(
  frame: Frame,
  box: { left: number; top: number; right: number; bottom: number },
  step: number,
): Picture {
  const { width: stride, height: rows, data } = frame;
  const width = Math.max(1, Math.floor((box.right - box.left) / step));
  const height = Math.max(1, Math.floor((box.bottom - box.top) / step));
  const out = new Uint8ClampedArray(width * height * 3);
  const luma = stride * rows;
  const half = stride >> 1;
  const blue = luma;
  const red = luma + luma / 4;
  for (let y = 0, o = 0; y < height; y++) {
    const fy = box.top + y * step + (step >> 1);
    const row = fy * stride;
    const chromaRow = (fy >> 1) * half;
    for (let x = 0; x < width; x++, o += 3) {
      const fx = box.left + x * step + (step >> 1);
      const l = 1.164 * ((data[row + fx] as number) - 16);
      const c = chromaRow + (fx >> 1);
      const cb = (data[blue + c] as number) - 128;
      const cr = (data[red + c] as number) - 128;
      out[o] = l + 1.7 * cr;
      out[o + 1] = l - 0.3 * cb - 0.62 * cr;
      out[o + 2] = l + 2.06 * cb;
    }
  }
  return { width, height, channels: 3, data: new Uint8Array(out.buffer) };
}

/** A face in pixels of another picture: shifted, then scaled. */
function moved(face: Face, dx: number, dy: number, scale: number): Face {
  const points = new Float32Array(face.points.length);
  for (let i = 0; i < points.length; i += 3) {
    points[i] = ((face.points[i] as number) + dx) * scale;
    points[i + 1] = ((face.points[i + 1] as number) + dy) * scale;
    points[i + 2] = (face.points[i + 2] as number) * scale;
  }
  return faceFromPoints(points, face.score);
}
