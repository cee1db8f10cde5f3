import type { Picture } from '@semblance/engine-api/picture';

/** Indices of MediaPipe's 33 body points in {@link Person.points}; left and right are the person's own. */
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

/** Body point in pixels of the picture. */
export interface BodyPoint {
  readonly x: number;
  readonly y: number;
  /** Depth relative to the middle of the hips, in pixels: smaller is nearer to the viewer. */
  readonly z: number;
  /** Probability that the point is in the picture and not hidden, 0–1. */
  readonly visibility: number;
  /** Probability that the point lies in the network's square, 0–1. */
  readonly presence: number;
}

/** Square in a picture: centre and side in pixels, rotation in radians (clockwise, y down). */
export interface SquareRegion {
  readonly x: number;
  readonly y: number;
  readonly size: number;
  readonly angle: number;
}

/** Coverage of each pixel of a square by the person. */
export interface PersonMask {
  /** side × side, 0–255. */
  readonly data: Uint8Array;
  readonly side: number;
  /** Position of the square in the picture. */
  readonly region: SquareRegion;
}

export interface Person {
  /** Probability of the landmark network that it saw a person, 0–1. */
  readonly score: number;
  /** The {@link BODY_POINTS} points, numbered as in {@link BODY}. */
  readonly points: readonly BodyPoint[];
  readonly mask: PersonMask;
  /** Square to search in the next frame. */
  readonly next: SquareRegion;
}

/** Finds the person of a picture. */
export interface PersonFinder {
  /**
   * Returns the most prominent person of a picture; undefined when there is none.
   * @param before the person in the previous frame: searched there first, and in the whole picture only when lost
   */
  find(picture: Picture, before?: Person): Promise<Person | undefined>;
  /**
   * Returns how far the points of a found person move on average, as a share of its square's side, when the network looks
   * for them in squares that are larger, smaller and turned. On a person they stay; on an animal, to which the network
   * also fits a body, each square gives another one.
   */
  unrest(picture: Picture, person: Person): Promise<number>;
  /** Frees the networks; the finder must not be used afterwards. */
  close(): Promise<void>;
}
