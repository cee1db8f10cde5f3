import type { Picture } from '@semblance/engine-api/picture';
import type { VideoFrame } from '@semblance/media/types';
import { type FaceFinder, MAX_YAW, yaw } from '@semblance/vision/face-finder';
import { type Face, faceFromPoints, pointOf } from '@semblance/vision/face-mesh';
import type { Person } from '@semblance/vision/person';
import { refitFace, toRgb } from '../motion-transfer/face-tracker.ts';
import type { Vec } from './geometry.ts';
import { headRadius, skeletonOf } from './skeleton.ts';

/** Below this the mesh no longer lies on a face. */
const KEEP_SCORE = 0.5;
/** Around the head a face is looked for within this many of its radii; the middle of one lies within that many. */
const SEARCHED = 2.6;
const NEAR = 1.3;
/** Narrower faces say nothing of their expression, pixels. */
const LEAST_WIDTH = 26;
/** More pixels than this to a side are not searched. */
const MAX_SEARCHED = 512;
/** Longest wait between two searches, frames. */
const MAX_WAIT = 8;

/** Follows the face of a person from frame to frame, where it is to be seen. */
export class PersonFaceFollower {
  readonly #finder: FaceFinder;
  readonly #checkpoint: () => void;
  #last: Face | undefined;
  #wait = 0;
  #untilSearch = 0;

  constructor(finder: FaceFinder, checkpoint: () => void) {
    this.#finder = finder;
    this.#checkpoint = checkpoint;
  }

  reset(): void {
    this.#last = undefined;
    this.#wait = 0;
    this.#untilSearch = 0;
  }

  /** Points of the face of a frame's person, pixels of the frame. */
  async follow(frame: VideoFrame, person: Person | undefined): Promise<Float32Array | undefined> {
    const skeleton = person && skeletonOf(person.points);
    // Of a person that turns its back no face is looked for: the network sees some on hair.
    if (!skeleton || skeleton.facing < 0) {
      this.reset();
      return undefined;
    }
    const radius = headRadius(skeleton);
    const fits = (face: Face): boolean => isThere(face) && distance(face, skeleton.head) < NEAR * radius;
    if (this.#last) {
      const face = await refitFace(this.#finder, frame, this.#last, 'both-ways');
      if (fits(face)) return this.#keep(face);
      this.#last = undefined;
    }
    if (this.#untilSearch > 0) {
      this.#untilSearch--;
      return undefined;
    }
    const found = await this.#search(frame, skeleton.head, SEARCHED * radius);
    const face = found && (await refitFace(this.#finder, frame, found, 'both-ways'));
    if (face && fits(face)) return this.#keep(face);
    this.#wait = Math.min(MAX_WAIT, Math.max(1, this.#wait * 2));
    this.#untilSearch = this.#wait - 1;
    return undefined;
  }

  #keep(face: Face): Float32Array {
    this.#last = face;
    this.#wait = 0;
    return face.points;
  }

  async #search(frame: VideoFrame, at: Vec, reach: number): Promise<Face | undefined> {
    const box = {
      left: Math.max(0, Math.floor(at.x - reach)),
      top: Math.max(0, Math.floor(at.y - reach)),
      right: Math.min(frame.width, Math.ceil(at.x + reach)),
      bottom: Math.min(frame.height, Math.ceil(at.y + reach)),
    };
    if (box.right - box.left < LEAST_WIDTH || box.bottom - box.top < LEAST_WIDTH) return undefined;
    const step = Math.max(1, Math.ceil((2 * reach) / MAX_SEARCHED));
    return nearestFace(this.#finder, toRgb(frame, box, step), {
      box,
      step,
      at,
      checkpoint: this.#checkpoint,
    });
  }
}

/** The face nearest to a place, looked for in a part of a picture whose every `step`-th pixel is given. */
export async function nearestFace(
  finder: FaceFinder,
  part: Picture,
  where: {
    readonly box: { readonly left: number; readonly top: number };
    readonly step: number;
    readonly at: Vec;
    readonly checkpoint: () => void;
  },
): Promise<Face | undefined> {
  const { box, step, at, checkpoint } = where;
  let best: Face | undefined;
  for (const { points, score } of await finder.findUpright(part, LEAST_WIDTH, checkpoint)) {
    const moved = points.map(
      (value, i) => value * step + (i % 3 === 0 ? box.left : i % 3 === 1 ? box.top : 0),
    );
    const face = faceFromPoints(moved, score);
    if (!best || distance(face, at) < distance(best, at)) best = face;
  }
  return best;
}

function isThere(face: Face): boolean {
  return face.score >= KEEP_SCORE && face.width >= LEAST_WIDTH && Math.abs(yaw(face)) <= MAX_YAW;
}

/** How far a face's bridge of the nose is from a place. */
function distance({ points }: Face, at: Vec): number {
  const { x, y } = pointOf(points, 6);
  return Math.hypot(x - at.x, y - at.y);
}
