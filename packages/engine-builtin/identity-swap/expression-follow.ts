import { faceFrame, toFaceFrame } from '../animate/face-frame.ts';
import { NECK } from '../animate/head-shape.ts';
import { type Portrait, type Pose, REST } from '../animate/portrait.ts';
import { anglesOf, rotationOf } from '../animate/rotation.ts';
import { DriverReference, TURN_GAIN } from '../motion-transfer/measure.ts';
import type { MouthScale } from '../motion-transfer/mouth-scale.ts';
import { between, neutralOf, Retargeter } from '../motion-transfer/retarget.ts';

/** How a head begins to move when the face is found, and how it goes back when it is lost: seconds. */
const EASE_IN_SEC = 0.4;
const HOLD_SEC = 0.5;
const EASE_OUT_SEC = 0.8;
/**
 * The place of a head by which the body's points put it (between ears and eyes), in the face's own frame: turns go
 * about it, so that head and body points do not both move it.
 */
const MIDDLE = [0, 0.1, 0.57] as const;

/**
 * Of the turn that the picture's own head has, no more than this is taken back, radians: the farther side of a head
 * that is turned or raised more is not on the picture.
 */
const STRAIGHTENED = 0.2;
/** Pitch of faces that look into the camera, as the mesh sees it (0.13 to 0.18 of four photographs). */
const LEVEL = 0.155;

/** How a head is to be drawn. */
export interface HeadPose {
  readonly pose: Pose;
  /** How much of it follows the face, 0–1; the rest is the flat head. */
  readonly share: number;
}

/** Turns the faces of a video's frames into poses of a character's head. */
export class ExpressionFollower {
  readonly #portrait: Portrait;
  readonly #mouth: MouthScale;
  /** States what of the picture's own turn is taken back. */
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
   * @param points of the face; undefined where it is not seen
   * @param ahead the same of frames to come: what counts as rest is judged by them, too
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
        // Of the turn the still has some already; place, size and roll are those of the body's points.
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

  /** Raises and lowers the share that follows the face; a shot that begins with one follows it at once. */
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

  /** Takes back what a turn about the neck's joint moves the middle of the head. */
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

/** A face turned to the camera, where it was, in pixels: against it all turns are whole ones. */
function frontal(points: Float32Array): Float32Array {
  const frame = faceFrame(points);
  return toFaceFrame(frame, points).map((value) => value * frame.iod);
}
