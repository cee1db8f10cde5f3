import type { LeftReason } from '@semblance/engine-api/findings';
import type { ColorTags, VideoFrame } from '@semblance/media/types';
import { coveredShare } from '@semblance/vision/face-cover';
import { type FaceFinder, MAX_YAW, yaw } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { withBystanders } from '../findings/face-counts.ts';
import { LOOK_AGAIN, ONE_OF_SHARE, type OnePerson, smallestOf } from '../people/one-person.ts';
import { CutDetector, WARY_CUT_SHARE } from '../video-swap/cuts.ts';
import { type FramePart, outOfPart, shrunk, wholeFrame } from '../video-swap/frame-part.ts';
import { brightnessUnder, likeness } from '../video-swap/likeness.ts';
import { cropsOfFrame } from '../video-swap/mesh-crop.ts';
import { LONGEST_GAP } from '../video-swap/track.ts';

/** Score below which the mesh no longer lies on a face. */
const KEEP_SCORE = 0.5;
/**
 * Largest motion or growth of a mesh since the face was last visible, as a share of the width; beyond it, it lies
 * on something else.
 */
const MAX_SHIFT = 0.45;
const MAX_GROWTH = 0.35;
/**
 * Correlation with the last visible face below which something is in front of it; the mesh network still finds a
 * face then.
 */
const LEAST_LIKE = 0.4;
/**
 * Largest distance between a found face and the lost one, in face widths including growth; beyond it, it is another
 * face.
 */
const SAME_FACE = 0.8;
/** Largest shorter side, in pixels, of the picture in which small faces are searched. */
const FINE_SIDE = 540;
/** Share of the mouth and its surroundings from which it counts as covered, and below which again as free. */
const COVERED = 0.2;
const FREE = 0.1;
/** Mesh points around all that is drawn: the lips, and the skin from the nose to the chin. */
const AROUND_MOUTH = [2, 327, 426, 434, 364, 379, 400, 152, 176, 150, 135, 214, 206, 98] as const;
/** Longest interval between two searches, in frames; a search costs as much as several fits. */
const MAX_WAIT = 4;

type Frame = Pick<VideoFrame, 'width' | 'height' | 'data'>;

export interface Followed {
  /** In pixels of the frame; undefined when it is not visible. */
  readonly face: Face | undefined;
  /** The frame begins another shot. */
  readonly cut: boolean;
  /** Something is in front of the mouth. */
  readonly covered: boolean;
}

/**
 * Tracks the main face of a video, or that of one person who is told from others. The mesh is fitted from frame to frame,
 * directly from the frame's planes, and for some frames after a loss at the last position. Then, and after a cut, the face
 * is searched.
 */
export class MainFace {
  readonly #finder: FaceFinder;
  readonly #color: Pick<ColorTags, 'range' | 'space'>;
  readonly #checkpoint: () => void;
  readonly #cuts = new CutDetector();
  readonly #speaker: OnePerson | undefined;
  /** A cut that is none costs no more than a look whether the face is still that of the person. */
  readonly #waryCuts = new CutDetector(WARY_CUT_SHARE);
  /** Frames since that was last looked at. */
  #unlooked = 0;
  #last: Face | undefined;
  /** Brightness under the mesh of the last face. */
  #look: Float32Array = new Float32Array(0);
  /** Frames since the face was visible, and failed searches since then. */
  #missing = 0;
  #searches = 0;
  #untilSearch = 0;
  #covered = false;
  /** Why faces were left alone, in the search that left most of them. */
  left: readonly LeftReason[] = [];

  /** @param speaker the person whose face it is; undefined: the most prominent face */
  constructor(
    finder: FaceFinder,
    color: Pick<ColorTags, 'range' | 'space'>,
    checkpoint: () => void,
    speaker?: OnePerson,
  ) {
    this.#speaker = speaker;
    this.#finder = finder;
    this.#color = color;
    this.#checkpoint = checkpoint;
  }

  async follow(frame: Frame): Promise<Followed> {
    const cut = this.#cuts.isCut(frame);
    if (cut) {
      this.#last = undefined;
      this.#missing = 0;
      this.#searches = 0;
      this.#untilSearch = 0;
    }
    const wary = this.#speaker !== undefined && this.#waryCuts.isCut(frame) && !cut;
    if (wary) this.#unlooked = LOOK_AGAIN;
    const face =
      (wary ? await this.#search(frame, true) : undefined) ??
      (await this.#fitLast(frame)) ??
      (await this.#searchNow(frame));
    if (face) {
      this.#last = face;
      this.#look = brightnessUnder(frame, face.points);
      this.#missing = 0;
      this.#searches = 0;
      this.#untilSearch = 0;
    } else this.#missing++;
    if (face) {
      const cover = await this.#finder.coverOf(cropsOfFrame(frame, this.#color), face);
      const share = cover ? coveredShare(cover, face, AROUND_MOUTH) : 0;
      this.#covered = share > (this.#covered ? FREE : COVERED);
    } else this.#covered = false;
    return { face, cut, covered: this.#covered };
  }

  async #fitLast(frame: Frame): Promise<Face | undefined> {
    const last = this.#last;
    if (!last || this.#missing > LONGEST_GAP) return undefined;
    const face = await this.#fit(frame, last);
    if (!shows(face) || shift(face, last) > MAX_SHIFT || growth(face, last) > MAX_GROWTH) return undefined;
    if (likeness(brightnessUnder(frame, face.points), this.#look) < LEAST_LIKE) return undefined;
    if (!this.#speaker || ++this.#unlooked < LOOK_AGAIN) return face;
    this.#unlooked = 0;
    if (!(await this.#speaker.isAnother(face, cropsOfFrame(frame, this.#color)))) return face;
    this.#last = undefined;
    return undefined;
  }

  #fit(frame: Frame, face: Face): Promise<Face> {
    this.#checkpoint();
    return this.#finder.followFrom(cropsOfFrame(frame, this.#color), face);
  }

  async #searchNow(frame: Frame): Promise<Face | undefined> {
    if (this.#untilSearch > 0) {
      this.#untilSearch--;
      return undefined;
    }
    const found = await this.#search(frame);
    if (found) return found;
    this.#searches++;
    this.#untilSearch = Math.min(MAX_WAIT, 2 ** (this.#searches - 1)) - 1;
    return undefined;
  }

  /** @param anew whether the lost face may be anywhere, as after a cut */
  async #search(frame: Frame, anew = false): Promise<Face | undefined> {
    const { width, height } = frame;
    let part = wholeFrame(frame, this.#color);
    let seen = await this.#lookIn(part);
    let chosen = await this.#choose(seen.faces, part, frame, anew);
    // Small faces are searched ever more rarely, because that costs as much as many fits.
    const fine =
      Math.min(width, height) >= 4 * FINE_SIDE ? 4 : Math.min(width, height) >= 2 * FINE_SIDE ? 2 : 1;
    if (!chosen && fine < part.step && Number.isInteger(Math.log2(this.#searches + 1))) {
      part = shrunk(frame, { x: 0, y: 0, width, height }, fine, this.#color);
      seen = await this.#lookIn(part);
      chosen = await this.#choose(seen.faces, part, frame, anew);
    }
    const left = withBystanders(seen.left, seen.faces.length - (chosen ? 1 : 0));
    if (left.length > this.left.length) this.left = left;
    if (!chosen || part.step === 1) return chosen;
    const fitted = await this.#fit(frame, chosen);
    return shows(fitted) ? fitted : chosen;
  }

  /** Of a person who is told from others also those faces count that are small beside another. */
  #lookIn({ picture }: FramePart) {
    if (!this.#speaker) return this.#finder.look(picture, this.#checkpoint);
    const share = ONE_OF_SHARE;
    return this.#finder.lookUpright(picture, smallestOf(picture), this.#checkpoint, { share });
  }

  /** Returns the lost face if it is among the found ones, otherwise the most prominent one, or that of the person. */
  async #choose(
    found: readonly Face[],
    part: FramePart,
    frame: Frame,
    anew: boolean,
  ): Promise<Face | undefined> {
    const faces = found.map((face) => outOfPart(face, part));
    const nearest = this.#nearest(faces);
    if (!this.#speaker) return nearest ?? faces[0];
    const crops = cropsOfFrame(frame, this.#color);
    const told = await this.#speaker.among(faces, crops);
    if (told) this.#unlooked = 0;
    if (told || anew || !nearest) return told;
    return (await this.#speaker.isAnother(nearest, crops)) ? undefined : nearest;
  }

  /** Returns the lost face if it is among the found ones. */
  #nearest(faces: readonly Face[]): Face | undefined {
    const last = this.#last;
    if (!last) return undefined;
    const far = (face: Face): number => shift(face, last) + growth(face, last);
    const nearest = faces.reduce<Face | undefined>(
      (best, face) => (best && far(best) <= far(face) ? best : face),
      undefined,
    );
    return nearest && far(nearest) < SAME_FACE ? nearest : undefined;
  }
}

function shows(face: Face): boolean {
  return face.score >= KEEP_SCORE && Math.abs(yaw(face)) <= MAX_YAW;
}

/** Returns the motion of the nose as a share of the face width. */
export function shift(a: Face, b: Face): number {
  const nose = 4 * 3;
  const dx = (a.points[nose] as number) - (b.points[nose] as number);
  const dy = (a.points[nose + 1] as number) - (b.points[nose + 1] as number);
  return Math.hypot(dx, dy) / Math.max(1, Math.min(a.width, b.width));
}

/** Returns the change of size as a logarithm. */
export function growth(a: Face, b: Face): number {
  return Math.abs(Math.log(Math.max(1, a.width) / Math.max(1, b.width)));
}
