import { FACE_OVAL } from '@semblance/vision/face-regions';
import { lipGaps, middleGap, mouthWidth, setGaps } from '../animate/lips.ts';
import { type Portrait, type Pose, REST } from '../animate/portrait.ts';
import { anglesOf } from '../animate/rotation.ts';
import type { Motion } from './measure.ts';
import type { MouthScale } from './mouth-scale.ts';
import { OneEuroFilter } from './one-euro.ts';

/** The mesh reads closed lips as this far open, IOD: less and more than this is something else. */
const CLOSED_GAP = [0.012, 0.04] as const;
/** Less than this over the closed mouth is noise of the mesh. */
const NOISE = 0.004;
/** Mouths as far open as this are seen alike on all faces; how closed ones are seen differs. */
const WIDE_OPEN = 0.3;
/**
 * A closed eye's openness as the mesh reads it, as a share of the open eye's (measured: 0.70 to 0.85 of six faces), and
 * from where an eye counts as open: small changes are noise.
 */
const CLOSED_EYE = 0.76;
const OPEN_EYE = 0.94;
/** Furthest that a still can be turned from facing the camera, radians: beyond it shows sides that no picture has. */
const MOST = { yaw: 0.68, pitch: 0.5, roll: 0.8, shift: 0.5, size: 0.25 };
/** How a held pose goes over into a face that was found again, and into rest when none is: seconds. */
const EASE_IN_SEC = 0.4;
const HOLD_SEC = 0.5;
const EASE_OUT_SEC = 0.8;

/** Holds what of a driver counts as rest. */
export interface Neutral {
  readonly lips: Float32Array;
  readonly eyes: readonly [number, number];
  readonly brows: readonly [number, number, number, number];
}

/** Judges rest from the first frames: eyes open as most often, lips as closed as they get, brows in the middle. */
export function neutralOf(motions: readonly Motion[]): Neutral {
  const rank = (values: readonly number[], share: number): number => {
    const sorted = [...values].sort((a, b) => a - b);
    return sorted[Math.round((sorted.length - 1) * share)] as number;
  };
  const opening = ({ lips }: Motion): number => lipGaps(lips).reduce((sum, gap) => sum + gap, 0);
  const closed = motions.reduce((best, motion) => (opening(motion) < opening(best) ? motion : best));
  const each = (share: number, pick: (motion: Motion) => number): number => rank(motions.map(pick), share);
  return {
    lips: closed.lips,
    eyes: [each(0.7, ({ eyes }) => eyes[0]), each(0.7, ({ eyes }) => eyes[1])],
    brows: [0, 1, 2, 3].map((k) =>
      each(0.5, ({ brows }) => brows[k] as number),
    ) as unknown as Neutral['brows'],
  };
}

/** Turns a driver's motion, frame by frame, into poses of one portrait. */
export class Retargeter {
  readonly #portrait: Portrait;
  readonly #neutral: Neutral;
  /** How far it may turn, move and shrink, each towards less and towards more. */
  readonly #room: Record<'yaw' | 'pitch' | 'dx' | 'dy' | 'size', readonly [number, number]>;
  readonly #gain: number;
  readonly #mouth: MouthScale;
  /** The driver's closed lips as the mesh reads them. */
  readonly #closed: number;
  readonly #filters = {
    turn: new OneEuroFilter({ atRest: 2, withSpeed: 12 }),
    place: new OneEuroFilter({ atRest: 1.5, withSpeed: 10 }),
    lips: new OneEuroFilter({ atRest: 6, withSpeed: 30 }),
    eyes: new OneEuroFilter({ atRest: 5, withSpeed: 4 }),
    brows: new OneEuroFilter({ atRest: 1.5, withSpeed: 12 }),
  };
  #last: Pose = REST;
  /** The pose from which the next ones go on: after a loss, and when the face is found again. */
  #from: Pose | undefined;
  /** States when the face was lost or found again. */
  #sinceUs = 0;
  #seen = false;
  #everSeen = false;

  constructor(portrait: Portrait, neutral: Neutral, mouth: MouthScale) {
    this.#portrait = portrait;
    this.#mouth = mouth;
    this.#closed = clamp(middleGap(neutral.lips), ...CLOSED_GAP);
    this.#neutral = neutral;
    const still = anglesOf(portrait.frame.axes);
    // A still that is turned already has less room: to the one side it would show its back, to the other a cheek of
    // which the picture has next to nothing.
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

  /** @param motion undefined where the driver's face is not seen */
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

  /** Offsets of the portrait's lips: shape by what changed in the driver's, opening as wide as the driver's is. */
  #lips(lips: Float32Array): Float32Array {
    const { rig } = this.#portrait;
    const offsets = new Float32Array(lips.length);
    for (let i = 0; i < lips.length; i++) {
      offsets[i] = this.#gain * ((lips[i] as number) - (this.#neutral.lips[i] as number));
    }
    const seen = middleGap(lips);
    // The profile along the lips is the driver's, its height what the portrait needs to be seen as open.
    const scale = this.#mouth.openFor(this.#asOnPortrait(seen)) / Math.max(1e-3, seen);
    const gaps = lipGaps(lips).map((gap) => scale * Math.max(0, gap));
    setGaps(rig.lips, offsets, gaps);
    return offsets;
  }

  /** As how far open the portrait is to be seen: closed where the driver's mouth is, wide open where it is. */
  #asOnPortrait(seen: number): number {
    if (seen >= WIDE_OPEN) return seen;
    const { closed } = this.#mouth;
    const share = (seen - this.#closed - NOISE) / (WIDE_OPEN - this.#closed - NOISE);
    return closed + Math.max(0, share) * (WIDE_OPEN - closed);
  }
}

/** How far hair and ears reach beyond the mesh, beside and above it, in IOD. */
const HEAD = { beside: 0.35, above: 0.7 };
/** However tightly a picture is cut, a head may move this far, in IOD: less looks nailed. */
const LEAST_SHIFT = 0.06;

/** A head cut by an edge of its picture must not leave that edge: what it would show there is on no picture. */
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

/** As it is for small values, and never beyond the limits. */
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

/** A pose between two. */
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
