import type { Picture } from '@semblance/engine-api/picture';

/** Places of MediaPipe's 33 body points in {@link Person.points}; left and right are the person's own. */
export const BODY = {
  nose: 0,
  leftEyeInner: 1,
  leftEye: 2,
  leftEyeOuter: 3,
  rightEyeInner: 4,
  rightEye: 5,
  rightEyeOuter: 6,
  leftEar: 7,
  rightEar: 8,
  mouthLeft: 9,
  mouthRight: 10,
  leftShoulder: 11,
  rightShoulder: 12,
  leftElbow: 13,
  rightElbow: 14,
  leftWrist: 15,
  rightWrist: 16,
  leftPinky: 17,
  rightPinky: 18,
  leftIndex: 19,
  rightIndex: 20,
  leftThumb: 21,
  rightThumb: 22,
  leftHip: 23,
  rightHip: 24,
  leftKnee: 25,
  rightKnee: 26,
  leftAnkle: 27,
  rightAnkle: 28,
  leftHeel: 29,
  rightHeel: 30,
  leftFootIndex: 31,
  rightFootIndex: 32,
} as const;
export const BODY_POINTS = 33;

/** A body point in pixels of the picture. */
export interface BodyPoint {
  readonly x: number;
  readonly y: number;
  /** Distance behind the middle of the hips, in pixels too: smaller is nearer to the viewer. */
  readonly z: number;
  /** Belief that the point is in the picture and nothing hides it, 0–1. */
  readonly visibility: number;
  /** Belief that the point lies in the square the network saw, 0–1. */
  readonly presence: number;
}

/** A square in a picture: its centre and side in pixels, its turn in radians (clockwise, y down). */
export interface SquareRegion {
  readonly x: number;
  readonly y: number;
  readonly size: number;
  readonly angle: number;
}

/** How much of each pixel of a square the person covers. */
export interface PersonMask {
  /** side × side, 0–255. */
  readonly data: Uint8Array;
  readonly side: number;
  /** States where the square lies in the picture. */
  readonly region: SquareRegion;
}

export interface Person {
  /** The landmark network's belief that it saw a person, 0–1. */
  readonly score: number;
  /** The {@link BODY_POINTS} points, as {@link BODY} numbers them. */
  readonly points: readonly BodyPoint[];
  readonly mask: PersonMask;
  /** The square to look at in the next frame. */
  readonly next: SquareRegion;
}

/** Finds the person of a picture. */
export interface PersonFinder {
  /**
   * The most prominent person of a picture; undefined when it shows none.
   * @param before the person as the frame before showed it: looked for there first, and anew only when lost
   */
  find(picture: Picture, before?: Person): Promise<Person | undefined>;
  /** Frees the networks; nothing may be found afterwards. */
  close(): Promise<void>;
}
