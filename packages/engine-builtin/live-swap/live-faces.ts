import { type FaceFinder, yaw } from '@semblance/vision/face-finder';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import type { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { smoothstep } from '@semblance/vision/plane/plane';
import { opennessOf } from '../video-swap/eyelids.ts';
import type { Frame } from '../video-swap/frame-part.ts';
import { brightnessUnder, likeness } from '../video-swap/likeness.ts';
import { People } from '../video-swap/people.ts';
import { type PlacedFace, shownAt, type Track } from '../video-swap/track.ts';
import { FaceTracker } from '../video-swap/tracker.ts';
import { JPEG_COLORS } from './planes.ts';
import { SteadyMesh } from './steady-mesh.ts';

/** Pause without frames, in ms, after which faces are searched as after a cut; swapped people are recognised. */
const PAUSE_MS = 500;
/** Interval at which other faces are searched beside the tracked ones, in ms. */
const OTHERS_MS = 800;
/**
 * Interval at which wide faces are searched when none is tracked, and interval for narrow ones, which cost several
 * times as much, in ms.
 */
const WIDE_MS = 200;
const NARROW_MS = 1600;
/** Time over which the swap of a new face fades in beside others, in ms. */
const FADE_MS = 200;
/** Time for which a lost face is drawn at its expected place, while the picture looks like it, in ms. */
const BRIDGED_MS = 200;
/** Number of people remembered; a stream has no end. */
const MAX_PEOPLE = 200;

interface Seen {
  readonly mesh: SteadyMesh;
  /** Time of its appearance; undefined for a face that was there at the start of the shot. */
  readonly appearedMs: number | undefined;
  /** Time at which it was last found, and the brightness under its mesh then. */
  foundMs: number;
  brightness: Float32Array;
}

/** Tracks the faces of a stream without knowing later frames, and returns where swaps are drawn. */
export class LiveFaces {
  readonly #tracker: FaceTracker;
  #seen = new Map<number, Seen>();
  #index = 0;
  #size = '';
  /** Whether other faces must be searched in the last tracked frame. */
  #othersDue = false;
  /** Time at which work on the frame before ended. */
  #endedMs = Number.NEGATIVE_INFINITY;
  #searchedMs = Number.NEGATIVE_INFINITY;
  #thoroughMs = Number.NEGATIVE_INFINITY;

  constructor(finder: FaceFinder, recogniser: () => Promise<FaceRecogniser>) {
    const people = new People({ most: MAX_PEOPLE });
    this.#tracker = new FaceTracker(finder, JPEG_COLORS, () => undefined, recogniser, people);
  }

  /** @param ms arrival time of the frame, never earlier than the one before */
  async follow(frame: Frame, ms: number): Promise<PlacedFace[]> {
    const size = `${frame.width} ${frame.height}`;
    const anew = size !== this.#size || ms - this.#endedMs > PAUSE_MS;
    this.#size = size;
    this.#endedMs = ms;
    const search = this.#search(ms);
    const { width, height, data } = frame;
    const index = this.#index++;
    this.#othersDue = await this.#tracker.followLive({ width, height, data, index }, anew, search);
    const seen = new Map<number, Seen>();
    const placed = this.#tracker.followed.flatMap((track) => {
      const known = this.#look(track, frame, index, ms);
      if (!known) return [];
      seen.set(track.id, known);
      return this.#place(track, known, frame, index, ms) ?? [];
    });
    this.#seen = seen;
    return placed;
  }

  /**
   * Does the work that the last tracked frame did not depend on: searches for others from time to time. They are
   * shown from the next frame on. @param frame as it was tracked, without anything drawn into it
   */
  async lookForOthers({ width, height, data }: Frame): Promise<void> {
    if (!this.#othersDue) return;
    this.#othersDue = false;
    await this.#tracker.lookForOthers({ width, height, data, index: this.#index - 1 });
  }

  /**
   * Tells how long a frame was worked on, so that slow work does not count as a pause. @param ms time at which work
   * on the last frame ended
   */
  workedUntil(ms: number): void {
    this.#endedMs = ms;
  }

  #search(ms: number): 'no' | 'quick' | 'thorough' {
    const follows = this.#tracker.followed.length > 0;
    if (ms - this.#searchedMs < (follows ? OTHERS_MS : WIDE_MS)) return 'no';
    this.#searchedMs = ms;
    if (follows || ms - this.#thoroughMs < NARROW_MS) return 'quick';
    this.#thoroughMs = ms;
    return 'thorough';
  }

  #look(track: Track, frame: Frame, index: number, ms: number): Seen | undefined {
    const known = this.#seen.get(track.id);
    const found = track.last === index ? track.at(index) : undefined;
    if (!found) return known;
    const brightness = brightnessUnder(frame, found.points);
    if (known) return Object.assign(known, { foundMs: ms, brightness });
    const appearedMs = track.shotStart === index ? undefined : ms;
    return { mesh: new SteadyMesh(), appearedMs, foundMs: ms, brightness };
  }

  #place(track: Track, seen: Seen, frame: Frame, index: number, ms: number): PlacedFace | undefined {
    const place = this.#where(track, seen, frame, index, ms);
    if (!place) return undefined;
    const fade = seen.appearedMs === undefined ? 1 : (ms - seen.appearedMs + FADE_MS / 5) / FADE_MS;
    const opacity = Math.min(1, place.share, shownAt(yaw(place.face)), fade);
    if (opacity <= 0.01) return undefined;
    const { face, openness } = place;
    return { track: track.id, face, opacity, openness };
  }

  /**
   * Returns the position of the face and its confidence. A face that the network has lost stays at its expected
   * place if the picture looks like it.
   */
  #where(track: Track, { mesh, foundMs, brightness }: Seen, frame: Frame, index: number, ms: number) {
    const sample = track.at(index);
    if (sample && track.last === index) {
      const face = faceFromPoints(mesh.next(sample.points, ms), sample.score);
      return { face, share: 1, openness: opennessOf(sample.points) };
    }
    const face: Face | undefined = ms - foundMs <= BRIDGED_MS ? track.predict(index) : undefined;
    if (!face) return undefined;
    const like = likeness(brightnessUnder(frame, face.points), brightness);
    return { face, share: smoothstep(0.4, 0.7, like), openness: opennessOf(face.points) };
  }
}
