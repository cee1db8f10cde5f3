import {
  absoluteKeyPoints,
  type HeadMotion,
  keyPointsOf,
  mixKeyPoints,
  relativeKeyPoints,
} from './keypoints.ts';

/**
 * Times in seconds while a driver's face is lost, as in `builtin`: the pose is held, eases back to rest, and later
 * eases in again.
 */
const HOLD_SEC = 0.5;
const EASE_OUT_SEC = 0.8;
const EASE_IN_SEC = 0.4;

type Points = Float32Array<ArrayBuffer>;

/** Turns a driver's motion, frame by frame in order, into key points of a still. */
export class DrivenPose {
  readonly #still: HeadMotion;
  readonly #relative: boolean;
  readonly #rest: Points;
  #first: HeadMotion | undefined;
  #last: Points;
  /** The key points from which the next ones blend: after a loss, and when the face is found again. */
  #from: Points | undefined;
  #sinceUs = 0;
  #seen = false;

  /**
   * @param relative whether the driver's motion is relative to its first frame with a face; otherwise it is
   * absolute
   */
  constructor(still: HeadMotion, relative: boolean) {
    this.#still = still;
    this.#relative = relative;
    this.#rest = keyPointsOf(still);
    this.#last = this.#rest;
  }

  /** Key points of the unchanged still. */
  get rest(): Points {
    return this.#rest;
  }

  /**
   * @param motion undefined if the driver's face is not visible
   * @param offset addition of a retargeter
   */
  next(motion: HeadMotion | undefined, ptsUs: number, offset?: Float32Array): Points {
    if (this.#seen !== (motion !== undefined)) {
      this.#from = this.#first && this.#last;
      this.#sinceUs = ptsUs;
      this.#seen = motion !== undefined;
    }
    const seconds = (ptsUs - this.#sinceUs) / 1e6;
    if (motion) {
      this.#first ??= motion;
      const driven = this.#relative
        ? relativeKeyPoints(this.#still, motion, this.#first)
        : absoluteKeyPoints(this.#still, motion);
      if (offset)
        for (let i = 0; i < driven.length; i++) driven[i] = (driven[i] as number) + (offset[i] as number);
      this.#last = this.#from ? mixKeyPoints(this.#from, driven, ease(seconds / EASE_IN_SEC)) : driven;
    } else if (this.#from) {
      this.#last = mixKeyPoints(this.#from, this.#rest, ease((seconds - HOLD_SEC) / EASE_OUT_SEC));
    }
    return this.#last;
  }
}

const ease = (t: number): number => (t <= 0 ? 0 : t >= 1 ? 1 : t * t * (3 - 2 * t));
