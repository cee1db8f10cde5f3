import { faceFrame, toFaceFrame } from '../animate/face-frame.ts';
import { NECK } from '../animate/head-shape.ts';
import { type Portrait, type Pose, REST } from '../animate/portrait.ts';
import { anglesOf, rotationOf } from '../animate/rotation.ts';
import { DriverReference, TURN_GAIN } from '../motion-transfer/measure.ts';
import type { MouthScale } from '../motion-transfer/mouth-scale.ts';
import { between, neutralOf, Retargeter } from '../motion-transfer/retarget.ts';

/** Time in which a head starts to follow a face that was found, and returns when the face is lost, in seconds. */
const EASE_IN_SEC = 0.4;
const HOLD_SEC = 0.5;
const EASE_OUT_SEC = 0.8;
/**
 * Point of the head that the body points determine (between ears and eyes), in the face's own frame. Rotations are
 * about this point, so that head and body points do not both move it.
 */
const MIDDLE = [0, 0.1, 0.57] as const;

/**
 * Largest rotation of the picture's own head that is undone, in radians. A head turned further does not show its
 * far side.
 */
const STRAIGHTENED = 0.2;
/** Pitch of faces that look into the camera, as the mesh measures it. */
const LEVEL = 0.155;

/** Pose in which a head is drawn. */
export interface HeadPose {
  readonly pose: Pose;
  /** Share of the head that follows the face, 0–1; the rest is the flat head. */
  readonly share: number;
}

/** Turns the faces in a video's frames into poses of a character's head. */
export class ExpressionFollower {
  readonly #portrait: Portrait;
  readonly #mouth: MouthScale;
  /** The part of the picture's own rotation that is undone. */
  readonly #still: { readonly yaw: number; readonly pitch: number };
  #reference: DriverReference | undefined;
  #retargeter: Retargeter | undefined;
  #share = 0;
  #lastUs: number | undefined;
  #lostUs = 0;

  constructor(portrait: Portrait, mouth: MouthScale) {
    this.#portrait = portrait;
    this.#mouth = mouth;
    const { yaw, pitch } = anglesOf(portrait.frame.axes);
    const within = (angle: number): number => Math.min(STRAIGHTENED, Math.max(-STRAIGHTENED, angle));
    this.#still = { yaw: within(yaw), pitch: LEVEL + within(pitch - LEVEL) };
  }

  /**
   * @param points of the face; undefined when it is not visible
   * @param ahead the same for coming frames, which also decide what counts as a face at rest
   */
  pose(
    points: Float32Array | undefined,
    ptsUs: number,
    ahead: readonly (Float32Array | undefined)[],
  ): HeadPose {
    const share = this.#follow(points !== undefined, ptsUs);
    if (points && !this.#reference) {
      this.#reference = new DriverReference(frontal(points));
      const seen = [points, ...ahead].filter((face) => face !== undefined);
      const motions = seen.map((face) => (this.#reference as DriverReference).measure(face));
      this.#retargeter = new Retargeter(this.#portrait, neutralOf(motions), this.#mouth);
    }
    const [reference, retargeter] = [this.#reference, this.#retargeter];
    if (!reference || !retargeter) return { pose: REST, share: 0 };
    const motion = points && reference.measure(points);
    const asked = retargeter.pose(
      motion && {
        ...motion,
        // The still already has a part of the rotation. Place, size and roll come from the body points.
        yaw: motion.yaw - TURN_GAIN.yaw * this.#still.yaw,
        roll: 0,
        pitch: motion.pitch - TURN_GAIN.pitch * this.#still.pitch,
        dx: 0,
        dy: 0,
        scale: 1,
      },
      ptsUs,
    );
    const eased = share * share * (3 - 2 * share);
    const pose = between(REST, asked, eased);
    return { pose: { ...pose, ...this.#shift(pose) }, share: eased };
  }

  /** Raises and lowers the share that follows the face. A shot that begins with a face follows it at once. */
  #follow(seen: boolean, ptsUs: number): number {
    const seconds = this.#lastUs === undefined ? 0 : (ptsUs - this.#lastUs) / 1e6;
    if (seen) {
      this.#share = this.#lastUs === undefined ? 1 : Math.min(1, this.#share + seconds / EASE_IN_SEC);
      this.#lostUs = ptsUs;
    } else if (ptsUs - this.#lostUs > HOLD_SEC * 1e6) {
      this.#share = Math.max(0, this.#share - seconds / EASE_OUT_SEC);
    }
    this.#lastUs = ptsUs;
    return this.#share;
  }

  /** Undoes the shift that a rotation about the neck gives to the middle of the head. */
  #shift(pose: Pose): { dx: number; dy: number } {
    const r = rotationOf(pose);
    const { axes } = this.#portrait.frame;
    const own = MIDDLE.map((value, k) => value - (NECK[k] as number));
    const from = [0, 1, 2].map((k) =>
      own.reduce((sum, value, j) => sum + (axes[k * 3 + j] as number) * value, 0),
    );
    const to = (row: number): number =>
      from.reduce((sum, value, j) => sum + (r[row * 3 + j] as number) * value, 0);
    return { dx: (from[0] as number) - to(0), dy: (from[1] as number) - to(1) };
  }
}

/** Returns the face turned towards the camera, in its place, in pixels. All rotations are relative to it. */
function frontal(points: Float32Array): Float32Array {
  const frame = faceFrame(points);
  return toFaceFrame(frame, points).map((value) => value * frame.iod);
}
