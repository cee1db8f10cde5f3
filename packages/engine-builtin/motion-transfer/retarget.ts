import { FACE_OVAL } from '@semblance/vision/face-regions';
import { lipGaps, middleGap, mouthWidth, setGaps } from '../animate/lips.ts';
import { type Portrait, type Pose, REST } from '../animate/portrait.ts';
import { anglesOf } from '../animate/rotation.ts';
import { setSmile, smileOf } from '../animate/smile.ts';
import type { Motion } from './measure.ts';
import type { MouthScale } from './mouth-scale.ts';
import { OneEuroFilter } from './one-euro.ts';

/** Range of openings, in IOD, that the mesh measures for closed lips. */
const CLOSED_GAP = [0.012, 0.04] as const;
/** Difference from the closed mouth that is noise of the mesh, in IOD. */
const NOISE = 0.004;
/** Opening, in IOD, from which mouths are measured alike on all faces; closed ones differ. */
const WIDE_OPEN = 0.3;
/**
 * Measured openness of a closed eye relative to the open eye (0.70 to 0.85 on six faces), and openness from which
 * an eye counts as open, because small changes are noise.
 */
const CLOSED_EYE = 0.76;
const OPEN_EYE = 0.94;
/**
 * Limits of a still's pose relative to facing the camera, angles in radians. Beyond them sides are visible that no
 * picture has.
 */
const MOST = { yaw: 0.68, pitch: 0.5, roll: 0.8, shift: 0.5, size: 0.25 };
/** Width of a mouth, in IOD, from which it smiles. */
const UNSMILING = 0.88;
/** Time in which a held pose blends into a face that was found again, or into rest when none is found, in seconds. */
const EASE_IN_SEC = 0.4;
const HOLD_SEC = 0.5;
const EASE_OUT_SEC = 0.8;

/** The rest pose of a driver. */
export interface Neutral {
  readonly lips: Float32Array;
  readonly eyes: readonly [number, number];
  readonly brows: readonly [number, number, number, number];
}

/** Share of a clip's frames, those with the most closed lips, in which a mouth counts as at rest. */
const AT_REST = 0.1;
/** Rank of an eye's openness among all frames that counts as open: eyes are shut for less than the rest of a clip. */
const OPEN_RANK = 0.8;

/**
 * Determines the rest from all frames, in whatever state they begin: eyes as open as they mostly are, the median of
 * the brows, and the median of the lips where they are most closed.
 */
export function neutralOf(motions: readonly Motion[]): Neutral {
  const each = (from: readonly Motion[], share: number, pick: (motion: Motion) => number): number => {
    const sorted = Float64Array.from(from, pick).sort();
    return sorted[Math.round((sorted.length - 1) * share)] as number;
  };
  const openings = new Map(
    motions.map((motion) => [motion, lipGaps(motion.lips).reduce((sum, gap) => sum + gap, 0)]),
  );
  const closed = [...motions]
    .sort((a, b) => (openings.get(a) as number) - (openings.get(b) as number))
    .slice(0, Math.max(1, Math.round(AT_REST * motions.length)));
  return {
    lips: (closed[0] as Motion).lips.map((_, i) => each(closed, 0.5, ({ lips }) => lips[i] as number)),
    eyes: [each(motions, OPEN_RANK, ({ eyes }) => eyes[0]), each(motions, OPEN_RANK, ({ eyes }) => eyes[1])],
    brows: [0, 1, 2, 3].map((k) =>
      each(motions, 0.5, ({ brows }) => brows[k] as number),
    ) as unknown as Neutral['brows'],
  };
}

/** Turns a driver's motion, frame by frame, into poses of one portrait. */
export class Retargeter {
  readonly #portrait: Portrait;
  readonly #neutral: Neutral;
  /** Range of each rotation, shift and scale, downwards and upwards. */
  readonly #room: Record<'yaw' | 'pitch' | 'dx' | 'dy' | 'size', readonly [number, number]>;
  readonly #gain: number;
  readonly #mouth: MouthScale;
  /** Measured opening of the driver's closed lips. */
  readonly #closed: number;
  readonly #filters = {
    turn: new OneEuroFilter({ atRest: 2, withSpeed: 12 }),
    place: new OneEuroFilter({ atRest: 1.5, withSpeed: 10 }),
    lips: new OneEuroFilter({ atRest: 6, withSpeed: 30 }),
    eyes: new OneEuroFilter({ atRest: 5, withSpeed: 4 }),
    brows: new OneEuroFilter({ atRest: 1.5, withSpeed: 12 }),
  };
  #last: Pose = REST;
  /** The pose from which the next ones blend: after a loss, and when the face is found again. */
  #from: Pose | undefined;
  /** Time at which the face was lost or found again. */
  #sinceUs = 0;
  #seen = false;
  #everSeen = false;

  constructor(portrait: Portrait, neutral: Neutral, mouth: MouthScale) {
    this.#portrait = portrait;
    this.#mouth = mouth;
    this.#closed = clamp(middleGap(neutral.lips), ...CLOSED_GAP);
    this.#neutral = neutral;
    const still = anglesOf(portrait.frame.axes);
    // A still that is already turned has less room: on one side it would show the back of the head, on the other a
    // cheek that the picture hardly has.
    const onward = Math.max(0.12, MOST.yaw - Math.abs(still.yaw));
    const back = Math.max(0.12, MOST.yaw - 1.2 * Math.abs(still.yaw));
    this.#room = {
      yaw: still.yaw > 0 ? [back, onward] : [onward, back],
      pitch: [MOST.pitch, MOST.pitch],
      ...roomToMove(portrait),
    };
    const widths = mouthWidth(portrait.rig.lips) / mouthWidth(neutral.lips);
    this.#gain = Math.min(1.25, Math.max(0.8, widths));
  }

  /** @param motion undefined when the driver's face is not visible */
  pose(motion: Motion | undefined, ptsUs: number): Pose {
    if (this.#seen !== (motion !== undefined)) {
      this.#from = this.#everSeen ? this.#last : undefined;
      this.#sinceUs = ptsUs;
      this.#seen = motion !== undefined;
      if (motion) for (const filter of Object.values(this.#filters)) filter.reset();
    }
    const seconds = (ptsUs - this.#sinceUs) / 1e6;
    if (motion) {
      this.#everSeen = true;
      const pose = this.#follow(motion, ptsUs);
      this.#last = this.#from ? between(this.#from, pose, ease(seconds / EASE_IN_SEC)) : pose;
    } else if (this.#from) {
      this.#last = between(this.#from, REST, ease((seconds - HOLD_SEC) / EASE_OUT_SEC));
    }
    return this.#last;
  }

  #follow(motion: Motion, ptsUs: number): Pose {
    const { turn, place, lips, eyes, brows } = this.#filters;
    const [roll, yaw, pitch] = turn.filter(
      [motion.roll, motion.yaw, motion.pitch],
      ptsUs,
    ) as unknown as number[];
    const [dx, dy, size] = place.filter(
      [motion.dx, motion.dy, Math.log(motion.scale)],
      ptsUs,
    ) as unknown as number[];
    const rightLeft = eyes.filter(
      motion.eyes.map((open, k) => this.#openness(open, k)),
      ptsUs,
    );
    const raised = brows.filter(
      motion.brows.map((height, k) => clamp(height - (this.#neutral.brows[k] as number), -0.12, 0.2)),
      ptsUs,
    );
    return {
      roll: within(roll as number, MOST.roll, MOST.roll),
      yaw: within(yaw as number, ...this.#room.yaw),
      pitch: within(pitch as number, ...this.#room.pitch),
      dx: within(dx as number, ...this.#room.dx),
      dy: within(dy as number, ...this.#room.dy),
      scale: Math.exp(within(size as number, ...this.#room.size)),
      expression: {
        lips: Float32Array.from(lips.filter(this.#lips(motion.lips), ptsUs)),
        eyes: [rightLeft[0] as number, rightLeft[1] as number],
        brows: [raised[0] as number, raised[1] as number, raised[2] as number, raised[3] as number],
      },
    };
  }

  #openness(open: number, eye: number): number {
    const usual = this.#neutral.eyes[eye] as number;
    const ratio = open / usual;
    if (ratio > 2 - OPEN_EYE) return Math.min(1.25, 1 + (ratio - 2 + OPEN_EYE));
    return clamp((ratio - CLOSED_EYE) / (OPEN_EYE - CLOSED_EYE), 0, 1);
  }

  /**
   * Returns the offsets of the portrait's lips: shape by the driver's change, opening equal to the driver's. The
   * smile stays between the still's and the driver's, so that two smiles never add up.
   */
  #lips(lips: Float32Array): Float32Array {
    const { rig } = this.#portrait;
    const offsets = new Float32Array(lips.length);
    for (let i = 0; i < lips.length; i++) {
      offsets[i] = this.#gain * ((lips[i] as number) - (this.#neutral.lips[i] as number));
    }
    const [still, driver] = [smileOf(rig.lips), smileOf(lips)];
    const told = smileOf(rig.lips.map((value, i) => value + (offsets[i] as number)));
    // A rounded mouth is narrower than at rest on every face.
    const usual = Math.min(UNSMILING, mouthWidth(this.#neutral.lips));
    const rounded = (still.width * driver.width) / usual;
    setSmile(rig.lips, offsets, {
      width: clamp(
        told.width,
        Math.min(still.width, driver.width, rounded),
        Math.max(still.width, driver.width),
      ),
      lift: clamp(told.lift, Math.min(still.lift, driver.lift), Math.max(still.lift, driver.lift)),
    });
    const seen = middleGap(lips);
    // The profile along the lips is the driver's; its height is the one that makes the portrait appear equally
    // open.
    const scale = this.#mouth.openFor(this.#asOnPortrait(seen)) / Math.max(1e-3, seen);
    const gaps = lipGaps(lips).map((gap) => scale * Math.max(0, gap));
    setGaps(rig.lips, offsets, gaps);
    return offsets;
  }

  /**
   * Returns the wanted measured opening of the portrait: closed where the driver's mouth is closed, wide open where
   * it is wide open.
   */
  #asOnPortrait(seen: number): number {
    if (seen >= WIDE_OPEN) return seen;
    const { closed } = this.#mouth;
    const share = (seen - this.#closed - NOISE) / (WIDE_OPEN - this.#closed - NOISE);
    return closed + Math.max(0, share) * (WIDE_OPEN - closed);
  }
}

/** Distance by which hair and ears extend beyond the mesh, beside and above it, in IOD. */
const HEAD = { beside: 0.35, above: 0.7 };
/** Least shift of a head in IOD, however tightly a picture is cut; less looks nailed down. */
const LEAST_SHIFT = 0.06;

/**
 * Returns the room of a head to move. A head that is cut by a border must not leave that border, because the
 * picture shows nothing there.
 */
function roomToMove({
  width,
  shape,
  frame,
}: Portrait): Record<'dx' | 'dy' | 'size', readonly [number, number]> {
  let [left, right, top] = [Infinity, -Infinity, Infinity];
  for (const index of FACE_OVAL) {
    left = Math.min(left, shape.rest[index * 3] as number);
    right = Math.max(right, shape.rest[index * 3] as number);
    top = Math.min(top, shape.rest[index * 3 + 1] as number);
  }
  const room = (pixels: number, head: number): number =>
    clamp(pixels / frame.iod - head, LEAST_SHIFT, MOST.shift);
  const fromLeft = room(left, HEAD.beside);
  const fromRight = room(width - right, HEAD.beside);
  const fromTop = room(top, HEAD.above);
  const shrunk = (MOST.size * Math.min(fromLeft, fromRight, fromTop)) / MOST.shift;
  return { dx: [fromRight, fromLeft], dy: [MOST.shift, fromTop], size: [shrunk, MOST.size] };
}

/** Returns small values unchanged, and never exceeds the limits. */
function within(value: number, low: number, high: number): number {
  const limit = value < 0 ? low : high;
  const free = 0.7 * limit;
  const size = Math.abs(value);
  if (size <= free) return value;
  const over = (limit - free) * Math.tanh((size - free) / (limit - free));
  return Math.sign(value) * (free + over);
}

const clamp = (value: number, low: number, high: number): number => Math.min(high, Math.max(low, value));
const ease = (t: number): number => (t <= 0 ? 0 : t >= 1 ? 1 : t * t * (3 - 2 * t));

/** Interpolates between two poses. */
export function between(a: Pose, b: Pose, t: number): Pose {
  const mix = (x: number, y: number): number => x + (y - x) * t;
  const list = <T extends ArrayLike<number>>(x: T | undefined, y: T | undefined, rest: number): number[] =>
    Array.from({ length: (x ?? y)?.length ?? 0 }, (_, i) => mix(x?.[i] ?? rest, y?.[i] ?? rest));
  const [from, to] = [a.expression, b.expression];
  return {
    roll: mix(a.roll, b.roll),
    yaw: mix(a.yaw, b.yaw),
    pitch: mix(a.pitch, b.pitch),
    dx: mix(a.dx, b.dx),
    dy: mix(a.dy, b.dy),
    scale: mix(a.scale, b.scale),
    expression: {
      ...(from.lips || to.lips ? { lips: Float32Array.from(list(from.lips, to.lips, 0)) } : {}),
      ...(from.eyes || to.eyes ? { eyes: list(from.eyes, to.eyes, 1) as unknown as [number, number] } : {}),
      ...(from.brows || to.brows
        ? { brows: list(from.brows, to.brows, 0) as unknown as [number, number, number, number] }
        : {}),
    },
  };
}
