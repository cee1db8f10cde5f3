import { MAX_YAW, yaw } from '@semblance/vision/face-finder';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { smoothstep } from '@semblance/vision/plane/plane';
import { type Openness, opennessOf } from './eyelids.ts';
import type { Person } from './people.ts';
import { type Posed, posed, smoothedMesh } from './smooth.ts';

/** Longest loss of a face that is bridged, in frames. */
export const LONGEST_GAP = 5;
/** Number of frames over which a face fades in or out within a shot. */
const FADE = 5;
/** Rotation from which a swap begins to fade, so that it does not end abruptly at the limit. */
const FADING_YAW = MAX_YAW - (8 * Math.PI) / 180;

/** Returns the share of a swap that is shown on a face with this rotation. */
export function shownAt(turn: number): number {
  return 1 - smoothstep(FADING_YAW, MAX_YAW, Math.abs(turn));
}

/** Position of a face in one frame. */
export interface Sample {
  readonly points: Float32Array;
  readonly score: number;
  /** Confidence that it is visible: 1 where the mesh fits, less where the position was bridged. */
  readonly seen: number;
}

/** A face to be drawn in a frame. */
export interface PlacedFace {
  readonly track: number;
  readonly face: Face;
  readonly opacity: number;
  /** Openness of its eyes in this frame. */
  readonly openness: Openness;
  /** The person, once recognised. */
  readonly person?: Person | undefined;
}

/** One face in one shot. It keeps the samples of a bounded number of frames. */
export class Track {
  readonly id: number;
  readonly shotStart: number;
  #samples = new Map<number, Sample>();
  /** Samples split into pose and shape, relative to the first one. */
  #posed = new Map<number, Posed>();
  #reference: Float32Array | undefined;
  #first = Infinity;
  #last = -1;
  open = true;
  /** The person, once recognised. */
  person: Person | undefined;
  /** Rotations of the head at which this face was described for recognition. */
  readonly turns: number[] = [];
  /** Set when its shot or the video has ended. */
  cutAfter = Infinity;

  constructor(id: number, shotStart: number) {
    this.id = id;
    this.shotStart = shotStart;
  }

  /** Index of the last frame with a sample. */
  get last(): number {
    return this.#last;
  }

  at(index: number): Sample | undefined {
    return this.#samples.get(index);
  }

  set(index: number, sample: Sample): void {
    this.#samples.set(index, sample);
    this.#posed.delete(index);
    this.#first = Math.min(this.#first, index);
    this.#last = Math.max(this.#last, index);
  }

  /** Predicts the next position of the face from its motion. */
  predict(index: number): Face | undefined {
    const last = this.#samples.get(this.#last);
    if (!last) return undefined;
    const before = this.#samples.get(this.#last - 1);
    if (!before) return faceFromPoints(last.points, last.score);
    const steps = Math.min(2, index - this.#last);
    const shift = [0, 1].map((k) => {
      let sum = 0;
      for (let i = k; i < last.points.length; i += 3)
        sum += (last.points[i] as number) - (before.points[i] as number);
      return (sum / (last.points.length / 3)) * steps;
    });
    const points = last.points.slice();
    for (let i = 0; i < points.length; i += 3) {
      points[i] = (points[i] as number) + (shift[0] as number);
      points[i + 1] = (points[i + 1] as number) + (shift[1] as number);
    }
    return faceFromPoints(points, last.score);
  }

  /** Returns the face in a frame whose neighbours have all been examined. */
  placed(index: number): PlacedFace | undefined {
    const sample = this.#samples.get(index);
    if (!sample) return undefined;
    const points = smoothedMesh((i) => this.#pose(i), index);
    const face = faceFromPoints(points, sample.score);
    const opacity = Math.min(sample.seen, shownAt(yaw(face)), this.#fade(index));
    if (opacity <= 0.01) return undefined;
    return { track: this.id, face, opacity, openness: opennessOf(sample.points), person: this.person };
  }

  #pose(index: number): Posed | undefined {
    let pose = this.#posed.get(index);
    if (pose) return pose;
    const sample = this.#samples.get(index);
    if (!sample) return undefined;
    this.#reference ??= sample.points;
    pose = posed(sample.points, this.#reference);
    this.#posed.set(index, pose);
    return pose;
  }

  /** Within a shot a face fades in and out; at a cut it changes at once. */
  #fade(index: number): number {
    let share = 1;
    if (this.#first > this.shotStart) share = Math.min(share, (index - this.#first + 1) / FADE);
    for (let ahead = 1; ahead < FADE; ahead++) {
      if (index + ahead > this.cutAfter) break;
      if (this.#samples.has(index + ahead)) continue;
      share = Math.min(share, ahead / FADE);
      break;
    }
    return share;
  }

  /** Forgets everything before a frame. */
  forgetBefore(index: number): void {
    for (const key of this.#samples.keys()) {
      if (key >= index) continue;
      this.#samples.delete(key);
      this.#posed.delete(key);
    }
  }
}
