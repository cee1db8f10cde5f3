import type { Picture } from '@semblance/engine-api/picture';
import type { VideoFrame } from '@semblance/media/types';
import { type FaceFinder, MAX_YAW, yaw } from '@semblance/vision/face-finder';
import { type Face, faceFromPoints, pointOf } from '@semblance/vision/face-mesh';
import type { Person } from '@semblance/vision/person';
import { refitFace, toRgb } from '../motion-transfer/face-tracker.ts';
import type { Vec } from './geometry.ts';
import { headRadius, skeletonOf } from './skeleton.ts';

/** Score below which the mesh no longer lies on a face. */
const KEEP_SCORE = 0.5;
/** Search area around the head, in head radii, and largest distance of the middle of a face. */
const SEARCHED = 2.6;
const NEAR = 1.3;
/** Width, in pixels, below which a face does not show its expression. */
const LEAST_WIDTH = 26;
/** Largest side of a searched area, in pixels. */
const MAX_SEARCHED = 512;
/** Longest interval between two searches, in frames. */
const MAX_WAIT = 8;

/** Follows the visible face of a person from frame to frame. */
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

  /** Returns the points of the person's face in a frame, in pixels of the frame. */
  async follow(frame: VideoFrame, person: Person | undefined): Promise<Float32Array | undefined> {
    const skeleton = person && skeletonOf(person.points);
    // A person seen from behind has no face, but the network finds some in hair.
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

/** Finds the face nearest to a place, in a part of a picture of which every `step`-th pixel is given. */
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

/** Returns the distance of a face's nose bridge from a place. */
function distance({ points }: Face, at: Vec): number {
  const { x, y } = pointOf(points, 6);
  return Math.hypot(x - at.x, y - at.y);
}
