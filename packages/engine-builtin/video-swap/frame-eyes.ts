import type { CropSource, Face } from '@semblance/vision/face-mesh';
import { type Gaze, gazeOf } from '@semblance/vision/gaze';
import { smoothstep } from '@semblance/vision/plane/plane';
import type { FilmedEyes } from '../swap/shown-features.ts';
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

/** Gazes, as of {@link Gaze.aside}, up to which new eyes follow, and from which only the frame's own look there. */
const GLANCE = [0.16, 0.22] as const;
/** Frames for which a frame of a glance keeps the own eyes: those of a face that glances a twelfth of the time stay. */
const HOLDS = 12;
const LONGEST = 900;
/** Frames kept from which the own eyes are shown wholly, so that noise shows none. */
const WHOLLY = 30;
/** Most by which the share of the own eyes rises and falls in a frame. */
const RISES = 0.2;
const FALLS = 0.04;

/**
 * Decides how much of a face's own eyes its frames show. The new eyes cannot look far aside, so the own ones do. They
 * stay for a while, and for good where glances are frequent: eyes that change with each glance would change their
 * colour.
 */
export class OwnEyes {
  #frames = 0;
  #share = 0;

  /** @param aside gaze in the next frame; `closed` is how far its eyes are closed, 0–1 */
  next(aside: number, closed: number): number {
    const glance = (1 - closed) * smoothstep(GLANCE[0], GLANCE[1], Math.abs(aside));
    this.#frames = Math.min(LONGEST, Math.max(0, this.#frames + glance * HOLDS - (1 - glance)));
    const change = Math.min(1, this.#frames / WHOLLY) - this.#share;
    this.#share += Math.min(RISES, Math.max(-FALLS, change));
    return this.#share;
  }
}

/** Rates per frame at which the usual sight of an iris rises and falls. */
const LEARNS = 0.2;
const FORGETS = 0.003;

/** Eyes of a face in one frame. */
export interface FrameEyes {
  /** How far the right and the left eye are closed, 0–1. */
  readonly closed: readonly [number, number];
  /** Share of the frame's own eyes that is shown, 0–1. */
  readonly ownEyes: number;
  /** How surely the irises of the right and the left eye are usually seen, 0–1. */
  readonly usual: readonly [number, number];
  /** Where they look. */
  readonly gaze: Gaze;
}

/** Returns what an analysis of one frame is told of its eyes. */
export function filmedEyes({ closed, usual }: FrameEyes): FilmedEyes {
  return { blinking: closed, usual };
}

/** The eyes of one face through its frames. */
export class FrameEyesReader {
  readonly #eyelids: Eyelids;
  readonly #gaze = new SteadyGaze();
  readonly #own = new OwnEyes();
  #usual: readonly [number, number] = [0, 0];

  /** @param openness as of {@link Eyelids} */
  constructor(openness: readonly Openness[] = []) {
    this.#eyelids = new Eyelids(openness);
  }

  /** As of {@link FrameEyes}, after the last frame. */
  get usual(): readonly [number, number] {
    return this.#usual;
  }

  /** Reads the eyes in the next frame. @param openness of its eyes in this frame */
  next(source: CropSource, face: Face, openness: Openness): FrameEyes {
    const gaze = gazeOf(source, face.points);
    const closed = this.#eyelids.closed(openness, gaze.seen);
    const usual = (side: 0 | 1): number => {
      const change = gaze.seen[side] - this.#usual[side];
      return this.#usual[side] + (change > 0 ? LEARNS : FORGETS) * (1 - closed[side]) * change;
    };
    this.#usual = [usual(0), usual(1)];
    const ownEyes = this.#own.next(gaze.aside, Math.max(...closed));
    return { closed, ownEyes, usual: this.#usual, gaze: this.#gaze.next(gaze) };
  }
}
