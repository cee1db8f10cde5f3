import { add, cross, dot, mix, scale, sub, unit, type Vec } from './head-frame.ts';
import type { Limb } from './sdf.ts';

/** Where a hand is and how it lies, in units of the head. */
export interface Pose {
  /** Middle of the row of knuckles. */
  readonly at: Vec;
  /** Direction from the wrist to the fingertips. */
  readonly forward: Vec;
  /** Direction out of the back of the hand. */
  readonly back: Vec;
  /** 1 for a right hand, whose back is towards the viewer with the thumb to the left of the fingers; else -1. */
  readonly side: 1 | -1;
  /** Size relative to a usual hand beside this face. */
  readonly size: number;
  /** Bend of the joints of each finger towards the palm, radians: knuckle, middle, end. */
  readonly bend: readonly [number, number, number];
  /** Angle between two neighbouring fingers, radians. */
  readonly spread: number;
  /** Direction in which the forearm leaves the wrist. */
  readonly forearm: Vec;
  /** Share of its length by which the thumb is turned to the fingers. */
  readonly thumb: number;
}

export interface Bone extends Limb {
  readonly kind: 'palm' | 'finger' | 'tip' | 'arm';
  /** Direction of the back of the hand at this bone. */
  readonly back: Vec;
}

/** Knuckles (forward, towards the thumb, towards the back), finger lengths and thicknesses; the hand is about 1.3 long. */
const FINGERS = [
  { knuckle: [0.01, 0.2, 0.01], length: 0.47, thick: 0.07 },
  { knuckle: [0.04, 0.067, 0.03], length: 0.53, thick: 0.071 },
  { knuckle: [0.01, -0.067, 0.02], length: 0.49, thick: 0.067 },
  { knuckle: [-0.05, -0.19, -0.01], length: 0.38, thick: 0.058 },
] as const;
const PHALANGES = [0.46, 0.3, 0.24] as const;

/** Returns the limbs of a hand, those of each finger together. */
export function bonesOf(pose: Pose): Bone[] {
  const f = unit(pose.forward);
  const n = unit(sub(pose.back, scale(f, dot(pose.back, f))));
  const s = scale(cross(f, n), -pose.side);
  const at = ([x, y, z]: Vec): Vec =>
    add(pose.at, scale(add(add(scale(f, x), scale(s, y)), scale(n, z)), pose.size));
  const k = pose.size;
  const bones: Bone[] = [];
  const wristAt = [0.085, 0.03, -0.03, -0.085];
  const bone = (
    kind: Bone['kind'],
    chain: number,
    ends: readonly [Vec, Vec],
    radii: readonly [number, number],
    melt: number,
    back = n,
  ): void => {
    bones.push({
      kind,
      chain,
      a: ends[0],
      b: ends[1],
      ra: radii[0] * k,
      rb: radii[1] * k,
      melt: melt * k,
      back,
    });
  };
  FINGERS.forEach(({ knuckle, thick }, i) => {
    bone(
      'palm',
      0,
      [at([-0.66, wristAt[i] as number, -0.02]), at(add(knuckle, [-0.03, 0, -0.03]))],
      [0.085, thick * 1.3],
      0.09,
    );
  });
  // The ball of the thumb, and the tendons on the back.
  bone('palm', 0, [at([-0.6, 0.1, -0.04]), at([-0.24, 0.26, -0.06])], [0.09, 0.075], 0.1);
  FINGERS.forEach(({ knuckle, thick }, i) => {
    bone(
      'palm',
      0,
      [at([-0.5, (wristAt[i] as number) * 0.8, 0.055]), at(add(knuckle, [-0.02, 0, 0.02]))],
      [0.012, thick * 0.62],
      0.06,
    );
  });
  const wrist = at([-0.7, 0, -0.02]);
  const elbow = add(wrist, scale(unit(pose.forearm), 1.7 * k));
  bone('arm', 0, [wrist, mix(wrist, elbow, 0.5)], [0.125, 0.16], 0.12);
  FINGERS.forEach(({ knuckle, length, thick }, i) => {
    const turn = (1.35 - i) * pose.spread;
    const toward = add(scale(f, Math.cos(turn)), scale(s, Math.sin(turn)));
    let from = at(knuckle);
    let angle = 0;
    PHALANGES.forEach((share, j) => {
      angle += (pose.bend[j] as number) * (1 + 0.08 * (i - 1.5));
      const along = add(scale(toward, Math.cos(angle)), scale(n, -Math.sin(angle)));
      const to = add(from, scale(along, length * share * k));
      const back = unit(sub(n, scale(along, dot(n, along))));
      const thin = [1, 0.9, 0.8, 0.62].map((part) => part * thick);
      bone(
        j === 2 ? 'tip' : 'finger',
        i + 1,
        [from, to],
        [thin[j] as number, thin[j + 1] as number],
        0.025,
        back,
      );
      from = to;
    });
  });
  const tuck = pose.thumb;
  const joints: Vec[] = [
    [-0.42, 0.2, -0.06],
    [-0.27, 0.33 - 0.04 * tuck, -0.07],
    [-0.07, 0.43 - 0.14 * tuck, -0.06],
    [0.1, 0.47 - 0.22 * tuck, -0.05],
  ];
  const thumbBack = unit(add(n, scale(s, 0.7)));
  for (let j = 0; j < 3; j++) {
    const thin = [0.085, 0.076, 0.07, 0.05];
    const ends = [at(joints[j] as Vec), at(joints[j + 1] as Vec)] as const;
    bone(j === 2 ? 'tip' : 'finger', 5, ends, [thin[j] as number, thin[j + 1] as number], 0.03, thumbBack);
  }
  return bones;
}
