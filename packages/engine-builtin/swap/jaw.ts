import { yaw } from '@semblance/vision/face-finder';
import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { FACE_OVAL, FACE_SIDES } from '@semblance/vision/face-regions';
import { smoothstep } from '@semblance/vision/plane/plane';
import { inPoseOf } from './shape.ts';

const [RIGHT_SIDE, LEFT_SIDE] = FACE_SIDES;
/** The outline from the left ear over the chin to the right ear. */
export const JAW: readonly number[] = FACE_OVAL.slice(
  FACE_OVAL.indexOf(LEFT_SIDE),
  FACE_OVAL.indexOf(RIGHT_SIDE) + 1,
);
const MIDDLE = (JAW.length - 1) / 2;
const UPPER_LIP = 0;
const LOWER_LIP = 17;

/** How much of the difference between the two jaws is taken, and how far a point moves at most, in face widths. */
const TAKEN = 0.9;
const FURTHEST = 0.06;
/** Turns of the head over which the shape of a jaw becomes unsure, in radians. */
const SURE_YAW = [(20 * Math.PI) / 180, (40 * Math.PI) / 180] as const;

/** How surely the mesh of a turned face shows the shape of its jaw, 0–1. */
export function frontalness(face: Face): number {
  return 1 - smoothstep(...SURE_YAW, Math.abs(yaw(face)));
}

/**
 * Returns how the target's jaw would have to move to have the source's proportions, however far the two mouths are
 * open.
 * @returns to the right and down in the upright face, in face widths, for each point of {@link JAW}
 */
export function jawMoves(target: Face, source: Float32Array): Float32Array {
  const { points, roll, width } = target;
  const posed = inPoseOf(points, source);
  const cos = Math.cos(roll) / width;
  const sin = Math.sin(roll) / width;
  const difference = (index: number): readonly [number, number] => {
    const x = (posed[index * 3] as number) - (points[index * 3] as number);
    const y = (posed[index * 3 + 1] as number) - (points[index * 3 + 1] as number);
    return [cos * x + sin * y, cos * y - sin * x];
  };
  const [upper, lower] = [difference(UPPER_LIP), difference(LOWER_LIP)];
  const own = JAW.map((index, n) => {
    const [x, y] = difference(index);
    // The jaw opens about the ears: the chin goes all the way with the lower lip.
    const opened = smoothstep(0.2, 1, towardsChin(n));
    return [x + opened * (upper[0] - lower[0]), y + opened * (upper[1] - lower[1])] as const;
  });
  const moves = new Float32Array(JAW.length * 2);
  const sure = frontalness(faceFromPoints(source, 1));
  for (const [n, [x, y]] of own.entries()) {
    // Both halves alike, because a small error of the pose would shift the chin aside.
    const [otherX, otherY] = own[JAW.length - 1 - n] as readonly [number, number];
    const [evenX, evenY] = [(x - otherX) / 2, (y + otherY) / 2];
    const limit = Math.min(1, FURTHEST / Math.max(1e-6, TAKEN * Math.hypot(evenX, evenY)));
    const share = sure * TAKEN * limit * smoothstep(0, 0.35, towardsChin(n));
    moves[n * 2] = evenX * share;
    moves[n * 2 + 1] = evenY * share;
  }
  return moves;
}

/** Returns 0 at the ears and 1 at the chin. @param n index in {@link JAW} */
function towardsChin(n: number): number {
  return 1 - Math.abs(n - MIDDLE) / MIDDLE;
}

/** Frames after which a mean hardly changes any more. */
const LONGEST_MEAN = 150;

/**
 * Mean of the moves of one face over its frames, because the mesh of a single frame trembles, and cheeks change with
 * every smile.
 */
export class JawMean {
  readonly #source: Float32Array;
  #seen = 0;
  #moves: Float32Array = new Float32Array(JAW.length * 2);

  /** @param source mesh of the source */
  constructor(source: Float32Array) {
    this.#source = source;
  }

  /** Number of frames in the mean. Turned faces count for less. */
  get seen(): number {
    return this.#seen;
  }

  /** As of {@link jawMoves}. */
  get moves(): Float32Array {
    return this.#moves;
  }

  add(face: Face): void {
    const share = frontalness(face);
    if (share === 0) return;
    this.#seen += share;
    const weight = share / Math.min(this.#seen, LONGEST_MEAN);
    const now = jawMoves(face, this.#source);
    this.#moves = this.#moves.map((mean, i) => mean + ((now[i] as number) - mean) * weight);
  }
}
