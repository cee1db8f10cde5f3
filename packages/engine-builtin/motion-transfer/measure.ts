import { LEFT_BROW, RIGHT_BROW } from '@semblance/vision/face-regions';
import { type FaceFrame, faceFrame, fromFaceFrame, toFaceFrame } from '../animate/face-frame.ts';
import { NECK } from '../animate/head-shape.ts';
import { lipsOf, middleGap } from '../animate/lips.ts';
import { type Angles, anglesOf, fitRigid, type RigidFit, rotationOf } from '../animate/rotation.ts';

/** Points that no expression moves: forehead, temples, bridge and tip of the nose, corners of the eyes, cheekbones. */
const STABLE = [
  10, 338, 297, 332, 284, 251, 109, 67, 103, 54, 21, 127, 356, 234, 454, 93, 323, 9, 8, 168, 6, 197, 195, 5,
  4, 1, 33, 133, 362, 263, 130, 359, 116, 345, 117, 346, 123, 352, 98, 327, 2,
];
/** Columns through the eyes: upper and lower rim. */
const RIGHT_COLUMNS = [
  [160, 144],
  [159, 145],
  [158, 153],
] as const;
const LEFT_COLUMNS = [
  [385, 380],
  [386, 374],
  [387, 373],
] as const;

/** Correction of rotations, which the mesh measures too small (0.82 and 0.88 of known angles). */
export const TURN_GAIN = { yaw: 1.2, pitch: 1.13 };

/**
 * Pitch, in radians per IOD, by which an opening mouth raises the measured face (0.13 on six painted heads, 0.3 on
 * six animated ones). Without the correction heads would nod while they speak.
 */
const LIFT_OF_MOUTH = 0.2;

/**
 * Everything in a driver's frame that a portrait follows. Lengths are in IOD of the first frame, in the face's own
 * frame.
 */
export interface Motion extends Angles {
  /** Shift of the neck's joint in the picture. */
  readonly dx: number;
  readonly dy: number;
  readonly scale: number;
  /** Positions of the lip points. */
  readonly lips: Float32Array;
  /** Height of the right and the left eye opening over its width. */
  readonly eyes: readonly [number, number];
  /** Height of the brows over the middle of the eyes: right inner and outer end, left inner and outer end. */
  readonly brows: readonly [number, number, number, number];
}

/** The first good frame of a driver, to which all motion is relative. */
export class DriverReference {
  readonly #points: Float32Array;
  readonly #frame: FaceFrame;
  readonly #neck: Float32Array;
  readonly #gap: number;

  constructor(points: Float32Array) {
    this.#points = points;
    this.#frame = faceFrame(points);
    this.#neck = fromFaceFrame(this.#frame, Float32Array.from(NECK));
    this.#gap = middleGap(lipsOf(toFaceFrame(this.#frame, points)));
  }

  measure(points: Float32Array): Motion {
    const fit = fitRigid(this.#points, points, STABLE);
    const own = toFaceFrame(this.#frame, unturned(fit, points));
    const { iod } = this.#frame;
    const seen = anglesOf(fit.rotation);
    const opened = middleGap(lipsOf(own)) - this.#gap;
    const angles = {
      roll: seen.roll,
      yaw: TURN_GAIN.yaw * seen.yaw,
      pitch: TURN_GAIN.pitch * seen.pitch + LIFT_OF_MOUTH * opened,
    };
    // The part of the face's shift that the rotation about the neck explains is no shift of the neck.
    const [neckX, neckY] = applied({ ...fit, rotation: rotationOf(angles) }, this.#neck);
    return {
      ...angles,
      dx: (neckX - (this.#neck[0] as number)) / iod,
      dy: (neckY - (this.#neck[1] as number)) / iod,
      scale: fit.scale,
      lips: lipsOf(own),
      eyes: [openness(own, RIGHT_COLUMNS, 33, 133), openness(own, LEFT_COLUMNS, 263, 362)],
      brows: [
        -mean(own, [RIGHT_BROW[4], RIGHT_BROW[5], RIGHT_BROW[6]]),
        -mean(own, [RIGHT_BROW[0], RIGHT_BROW[8], RIGHT_BROW[9]]),
        -mean(own, [LEFT_BROW[4], LEFT_BROW[5], LEFT_BROW[6]]),
        -mean(own, [LEFT_BROW[0], LEFT_BROW[8], LEFT_BROW[9]]),
      ],
    };
  }
}

/** Removes rotation, shift and scale from points; the rest is the expression. */
function unturned({ rotation, scale, fromCenter, toCenter }: RigidFit, points: Float32Array): Float32Array {
  const out = new Float32Array(points.length);
  for (let i = 0; i < points.length; i += 3) {
    const x = (points[i] as number) - toCenter[0];
    const y = (points[i + 1] as number) - toCenter[1];
    const z = (points[i + 2] as number) - toCenter[2];
    for (let k = 0; k < 3; k++) {
      const turned =
        x * (rotation[k] as number) + y * (rotation[3 + k] as number) + z * (rotation[6 + k] as number);
      out[i + k] = turned / scale + (fromCenter[k] as number);
    }
  }
  return out;
}

function applied({ rotation, scale, fromCenter, toCenter }: RigidFit, point: Float32Array): [number, number] {
  const d = [0, 1, 2].map((k) => (point[k] as number) - (fromCenter[k] as number)) as [
    number,
    number,
    number,
  ];
  const row = (r: number): number =>
    scale *
      ((rotation[r] as number) * d[0] +
        (rotation[r + 1] as number) * d[1] +
        (rotation[r + 2] as number) * d[2]) +
    (toCenter[r / 3] as number);
  return [row(0), row(3)];
}

function openness(
  own: Float32Array,
  columns: readonly (readonly [number, number])[],
  outer: number,
  inner: number,
): number {
  const width = Math.abs((own[outer * 3] as number) - (own[inner * 3] as number));
  let height = 0;
  for (const [upper, lower] of columns) {
    height += ((own[lower * 3 + 1] as number) - (own[upper * 3 + 1] as number)) / columns.length;
  }
  return height / Math.max(1e-3, width);
}

function mean(own: Float32Array, indices: readonly number[]): number {
  return indices.reduce((sum, i) => sum + (own[i * 3 + 1] as number), 0) / indices.length;
}
