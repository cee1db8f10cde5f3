import { BODY, type BodyPoint } from '@semblance/vision/person';
import { add, cross, dot, length, middle, mix, sub, times, unit, type Vec } from './geometry.ts';

/** Joints of a limb from the body outwards; the last is the tip of the hand or the foot. */
export const LIMBS = ['leftArm', 'rightArm', 'leftLeg', 'rightLeg'] as const;
export type Limb = (typeof LIMBS)[number];

const LIMB_POINTS: Record<Limb, readonly [number, number, number]> = {
  leftArm: [BODY.leftShoulder, BODY.leftElbow, BODY.leftWrist],
  rightArm: [BODY.rightShoulder, BODY.rightElbow, BODY.rightWrist],
  leftLeg: [BODY.leftHip, BODY.leftKnee, BODY.leftAnkle],
  rightLeg: [BODY.rightHip, BODY.rightKnee, BODY.rightAnkle],
};

/** Confidence from which a knee is in the picture. In 15 pictures those that are have 0.64 or more, others up to 0.33. */
const KNEE_SEEN = 0.5;

/** A point of the body and its confidence. */
export interface Joint extends Vec {
  readonly z: number;
  readonly seen: number;
}

/** Bones of one person in one picture, in pixels. */
export interface Skeleton {
  /** Middle of the hips and of the shoulders. */
  readonly hips: Vec;
  readonly shoulders: Vec;
  /** From the middle to the person's own left. */
  readonly hipSide: Vec;
  readonly shoulderSide: Vec;
  /** Middle of the head, and its down direction in the picture. */
  readonly head: Vec;
  readonly headDown: Vec;
  readonly chin: Vec;
  /** Confidence of the nose. */
  readonly noseSeen: number;
  /**
   * Position of the nose relative to the head's middle, in {@link headRadius}: to the right and down in the head's
   * frame.
   */
  readonly turn: Vec;
  readonly limbs: Readonly<Record<Limb, readonly [Joint, Joint, Joint, Joint]>>;
  /** 1 when the person's own left is on the right of an upright picture (seen from the front), else -1. */
  readonly facing: 1 | -1;
  /** Unit in which bodies are compared: about the length of the torso, at any rotation. */
  readonly size: number;
  /** Depth of the middle of the torso. */
  readonly depth: number;
}

/** Returns half the width of a head, from its height above the shoulders. */
export function headRadius({ head, shoulders }: Pick<Skeleton, 'head' | 'shoulders'>): number {
  return Math.max(1, 0.62 * length(sub(head, shoulders)));
}

/** Returns whether the hips are so far above the end of a picture that it shows the whole trunk. */
export function showsHips({ hips, size }: Skeleton, bottom: number): boolean {
  return hips.y + 0.25 * size < bottom;
}

/** Returns whether a picture shows a knee. */
export function showsLegs({ limbs }: Pick<Skeleton, 'limbs'>): boolean {
  return Math.max(limbs.leftLeg[1].seen, limbs.rightLeg[1].seen) >= KNEE_SEEN;
}

export function skeletonOf(points: readonly BodyPoint[]): Skeleton {
  const at = (i: number): Joint => {
    const { x, y, z, visibility, presence } = points[i] as BodyPoint;
    return { x, y, z, seen: Math.min(visibility, presence) };
  };
  const [leftHip, rightHip] = [at(BODY.leftHip), at(BODY.rightHip)];
  const [leftShoulder, rightShoulder] = [at(BODY.leftShoulder), at(BODY.rightShoulder)];
  const hips = middle(leftHip, rightHip);
  const shoulders = middle(leftShoulder, rightShoulder);
  const hipSide = sub(leftHip, hips);
  const shoulderSide = sub(leftShoulder, shoulders);
  const limbs = {} as Record<Limb, [Joint, Joint, Joint, Joint]>;
  for (const limb of LIMBS) {
    const [a, b, c] = LIMB_POINTS[limb].map(at) as [Joint, Joint, Joint];
    limbs[limb] = [a, b, c, tipOf(limb, c, at)];
  }
  const eyes = middle(at(BODY.leftEye), at(BODY.rightEye));
  const mouth = middle(at(BODY.mouthLeft), at(BODY.mouthRight));
  const ears = middle(at(BODY.leftEar), at(BODY.rightEar));
  const down = unit(sub(mouth, eyes));
  const height = length(sub(mouth, eyes));
  const spine = sub(shoulders, hips);
  const legs = LIMBS.slice(2).map((limb) => {
    const [hip, knee, ankle] = limbs[limb];
    return (length(sub(knee, hip)) + length(sub(ankle, knee))) * Math.min(hip.seen, knee.seen, ankle.seen);
  });
  const hipsSeen = Math.max(leftHip.seen, rightHip.seen) > 0.5 ? 1 : 0.7;
  const head = mix(ears, eyes, 0.4);
  const radius = headRadius({ head, shoulders });
  const nose = sub(at(BODY.nose), ears);
  return {
    hips,
    shoulders,
    hipSide,
    shoulderSide,
    limbs,
    head,
    turn: { x: cross(down, nose) / -radius, y: dot(down, nose) / radius },
    headDown: down,
    noseSeen: at(BODY.nose).seen,
    chin: add(mouth, times(down, 0.65 * height)),
    // The spine points up; rotated clockwise it points to the right.
    facing: cross(spine, add(shoulderSide, hipSide)) > 0 ? 1 : -1,
    // Hips outside the picture are guessed at another place in each frame.
    size: Math.max(hipsSeen * length(spine), 2.6 * length(shoulderSide), 0.6 * Math.max(...legs)),
    depth: (leftHip.z + rightHip.z + leftShoulder.z + rightShoulder.z) / 4,
  };
}

function tipOf(limb: Limb, end: Joint, at: (i: number) => Joint): Joint {
  const toe = limb === 'leftLeg' ? BODY.leftFootIndex : BODY.rightFootIndex;
  if (limb.endsWith('Leg')) return at(toe);
  const [index, pinky] =
    limb === 'leftArm'
      ? [at(BODY.leftIndex), at(BODY.leftPinky)]
      : [at(BODY.rightIndex), at(BODY.rightPinky)];
  return {
    ...middle(index, pinky),
    z: (index.z + pinky.z) / 2,
    seen: Math.min(index.seen, pinky.seen, end.seen),
  };
}
