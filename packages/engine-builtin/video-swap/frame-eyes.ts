import type { CropSource, Face } from '@semblance/vision/face-mesh';
import { type Gaze, gazeOf } from '@semblance/vision/gaze';
import { smoothstep } from '@semblance/vision/plane/plane';
import { Eyelids, type Openness } from './eyelids.ts';

/** Changes up to which a gaze is noise, and from which eyes jump, as shares of the eye's width. */
const STILL = 0.01;
const JUMP = 0.04;
/** Share of the change that is followed in each frame while eyes are still. */
const FOLLOWS = 0.15;

/** Holds the gaze of one face still against the noise of its frames, but follows a glance at once. */
export class SteadyGaze {
  #last: Gaze | undefined;

  /** @param gaze in the next frame; one that is not sure leaves the eyes where they were */
  next(gaze: Gaze): Gaze {
    const last = this.#last;
    if (!last) this.#last = gaze;
    else {
      const jump = gaze.aside - last.aside;
      const share = FOLLOWS + (1 - FOLLOWS) * smoothstep(STILL, JUMP, Math.abs(jump));
      const aside = last.aside + jump * share * gaze.sure;
      this.#last = { ...gaze, aside, sure: last.sure + (gaze.sure - last.sure) * FOLLOWS };
    }
    return this.#last as Gaze;
  }
}

/** Eyes of a face in one frame. */
export interface FrameEyes {
  /** How far the right and the left eye are closed, 0–1. */
  readonly closed: readonly [number, number];
  /** Where they look. */
  readonly gaze: Gaze;
}

/** The eyes of one face through its frames. */
export class FrameEyesReader {
  readonly #eyelids: Eyelids;
  readonly #gaze = new SteadyGaze();

  /** @param openness as of {@link Eyelids} */
  constructor(openness: readonly Openness[] = []) {
    this.#eyelids = new Eyelids(openness);
  }

  /** Reads the eyes in the next frame. @param openness of its eyes in this frame */
  next(source: CropSource, face: Face, openness: Openness): FrameEyes {
    const gaze = gazeOf(source, face.points);
    return { closed: this.#eyelids.closed(openness, gaze.seen), gaze: this.#gaze.next(gaze) };
  }
}
