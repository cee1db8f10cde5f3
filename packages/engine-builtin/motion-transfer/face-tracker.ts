import type { Picture } from '@semblance/engine-api/picture';
import type { VideoFrame } from '@semblance/media/types';
import { type FaceFinder, MAX_YAW, yaw } from '@semblance/vision/face-finder';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { LOOK_AGAIN, ONE_OF_SHARE, type OnePerson, smallestOf } from '../people/one-person.ts';
import { CutDetector, WARY_CUT_SHARE } from '../video-swap/cuts.ts';
import { cropsOfFrame } from '../video-swap/mesh-crop.ts';
import { fitBothWays } from './mirror-fit.ts';

/** Score below which the mesh no longer lies on a face. */
const KEEP_SCORE = 0.5;
/** Largest shorter side, in pixels, of the picture in which a face is searched. */
const SEARCH_SIDE = 540;
/** Longest interval between two searches, in frames; a search costs as much as many fits. */
const MAX_WAIT = 8;

const COLORS = { range: 'tv', space: 'bt709' } as const;

type Frame = Pick<VideoFrame, 'width' | 'height' | 'data'>;

/**
 * How a known face is fitted again: once, or also in its mirror image, which takes twice as long and is more
 * precise.
 */
export type Fit = 'once' | 'both-ways';

/**
 * Tracks one face through a video: fits the mesh from frame to frame, and searches again when it is lost. It is the most
 * prominent one, or that of a person who is told from others.
 */
export class FaceTracker {
  readonly #finder: FaceFinder;
  readonly #checkpoint: () => void;
  readonly #fit: Fit;
  readonly #person: OnePerson | undefined;
  readonly #cuts = new CutDetector();
  /** A cut that is none costs no more than another search. */
  readonly #waryCuts = new CutDetector(WARY_CUT_SHARE);
  /** Frames since it was last looked at whether the face is still that of the person. */
  #unlooked = 0;
  #last: Face | undefined;
  #lost = false;
  #wait = 0;
  #untilSearch = 0;

  constructor(finder: FaceFinder, checkpoint: () => void, fit: Fit = 'once', person?: OnePerson) {
    this.#finder = finder;
    this.#person = person;
    this.#fit = fit;
    this.#checkpoint = checkpoint;
  }

  /** Returns the face in the next frame, in pixels of the frame; undefined when it is not visible. */
  async track(frame: Frame): Promise<Face | undefined> {
    const found = this.#person && (await this.#searchAfterCut(frame));
    if (found) return this.#keep((await this.#refit(frame, found)) ?? found);
    return this.#trackOn(frame);
  }

  /** Returns the face of the person where the frame may begin another shot; undefined also where it does not. */
  async #searchAfterCut(frame: Frame): Promise<Face | undefined> {
    const [cut, wary] = [this.#cuts.isCut(frame), this.#waryCuts.isCut(frame)];
    if (cut) this.#last = undefined;
    if (!cut && !wary) return undefined;
    this.#untilSearch = 0;
    this.#unlooked = LOOK_AGAIN;
    return this.#search(frame, true);
  }

  async #trackOn(frame: Frame): Promise<Face | undefined> {
    if (this.#last && !this.#lost) {
      const face = await this.#follow(frame, this.#last);
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
    // Fitted as in later frames, so that the driver's rest does not depend on how it was measured.
    if (found) return this.#keep((await this.#refit(frame, found)) ?? found);
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

  /** Returns the face of the frame before; undefined where it is lost, or has become that of somebody else. */
  async #follow(frame: Frame, last: Face): Promise<Face | undefined> {
    const face = await this.#refit(frame, last);
    if (!face || !this.#person || ++this.#unlooked < LOOK_AGAIN) return face;
    this.#unlooked = 0;
    if (!(await this.#person.isAnother(face, cropsOfFrame(frame, COLORS)))) return face;
    this.#last = undefined;
    return undefined;
  }

  async #refit(frame: Frame, last: Face): Promise<Face | undefined> {
    const face = await refitFace(this.#finder, frame, last, this.#fit);
    return face.score < KEEP_SCORE || Math.abs(yaw(face)) > MAX_YAW ? undefined : face;
  }

  /** @param anew whether the lost face may be anywhere, as after a cut */
  async #search(frame: Frame, anew = false): Promise<Face | undefined> {
    const step = Math.max(1, Math.floor(Math.min(frame.width, frame.height) / SEARCH_SIDE));
    const picture = toRgb(frame, { left: 0, top: 0, right: frame.width, bottom: frame.height }, step);
    const { faces: seen } = this.#person
      ? await this.#finder.lookUpright(picture, smallestOf(picture), this.#checkpoint, {
          share: ONE_OF_SHARE,
        })
      : await this.#finder.look(picture, this.#checkpoint);
    const faces = seen.map((face) => moved(face, 0, 0, step));
    const nearest = this.#nearest(faces);
    if (!this.#person) return nearest ?? faces[0];
    const crops = cropsOfFrame(frame, COLORS);
    const told = await this.#person.among(faces, crops);
    if (told) this.#unlooked = 0;
    if (told || anew || !nearest) return told;
    return (await this.#person.isAnother(nearest, crops)) ? undefined : nearest;
  }

  /** Returns the lost face if it is among the found ones. */
  #nearest(faces: readonly Face[]): Face | undefined {
    const last = this.#last;
    if (!last) return undefined;
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
    return nearest && far(nearest) < 0.8 ? nearest : undefined;
  }
}

/** Fits the mesh of a known face again in a frame. Both are in pixels of the frame. */
export function refitFace(finder: FaceFinder, frame: Frame, face: Face, fit: Fit): Promise<Face> {
  const source = cropsOfFrame(frame, COLORS);
  return fit === 'once' ? finder.followFrom(source, face) : fitBothWays(finder, source, frame.width, face);
}

/** Returns every `step`-th pixel of a part of a frame as the colours that the networks expect. */
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

/** Returns a face in pixels of another picture: shifted, then scaled. */
function moved(face: Face, dx: number, dy: number, scale: number): Face {
  const points = new Float32Array(face.points.length);
  for (let i = 0; i < points.length; i += 3) {
    points[i] = ((face.points[i] as number) + dx) * scale;
    points[i + 1] = ((face.points[i + 1] as number) + dy) * scale;
    points[i + 2] = (face.points[i + 2] as number) * scale;
  }
  return faceFromPoints(points, face.score);
}
