import { smoothstep } from '@semblance/vision/plane/plane';
import { blend, hex, luminance, type Rgb, tint } from './colour.ts';
import type { Scene } from './composite.ts';
import { add, cross, dot, mix, scale, sub, unit, type Vec } from './head-frame.ts';
import type { Light } from './light.ts';
import { noise, rough } from './noise.ts';
import { type Hit, type Limb, limbsDistance, nearestLimb, type Solid } from './sdf.ts';

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

function bonesOf(pose: Pose): Bone[] {
  const f = unit(pose.forward);
  const n = unit(sub(pose.back, scale(f, dot(pose.back, f))));
  const s = scale(cross(f, n), -pose.side);
  const at = ([x, y, z]: Vec): Vec =>
    add(pose.at, scale(add(add(scale(f, x), scale(s, y)), scale(n, z)), pose.size));
  const k = pose.size;
  const bones: Bone[] = [];
  const wristAt = [0.085, 0.03, -0.03, -0.085];
  const bone = (kind: Bone['kind'], chain: number, ends: readonly [Vec, Vec], radii: readonly [number, number], melt: number, back = n): void => {
    bones.push({ kind, chain, a: ends[0], b: ends[1], ra: radii[0] * k, rb: radii[1] * k, melt: melt * k, back });
  };
  FINGERS.forEach(({ knuckle, thick }, i) => {
    bone('palm', 0, [at([-0.66, wristAt[i] as number, -0.02]), at(add(knuckle, [-0.03, 0, -0.03]))], [0.085, thick * 1.3], 0.09);
  });
  // The ball of the thumb, and the tendons on the back.
  bone('palm', 0, [at([-0.6, 0.1, -0.04]), at([-0.24, 0.26, -0.06])], [0.09, 0.075], 0.1);
  FINGERS.forEach(({ knuckle, thick }, i) => {
    bone('palm', 0, [at([-0.5, (wristAt[i] as number) * 0.8, 0.055]), at(add(knuckle, [-0.02, 0, 0.02]))], [0.012, thick * 0.62], 0.06);
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
      bone(j === 2 ? 'tip' : 'finger', i + 1, [from, to], [thin[j] as number, thin[j + 1] as number], 0.025, back);
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

/** Returns a hand, and the sleeve from which its forearm comes. */
export function handSolids(scene: Scene, pose: Pose, skin: Rgb): Solid[] {
  const bones = bonesOf(pose);
  const k = pose.size;
  const arm = bones.find(({ kind }) => kind === 'arm') as Bone;
  return [
    {
      centre: add(pose.at, scale(unit(pose.forward), -0.1 * k)),
      radius: 1.05 * k,
      distance: limbsDistance(bones, 0.03 * k),
      colour: (hit) => skinColour(hit, bones, skin, scene.light, scene.seed),
    },
    sleeve(scene, { wrist: arm.a, along: unit(sub(arm.b, arm.a)), size: k }),
  ];
}

/** Returns a sleeve of cloth around a forearm, a little above the wrist. */
export function sleeve(scene: Scene, arm: { wrist: Vec; along: Vec; size: number }): Solid {
  const { along, size } = arm;
  const cuff = add(arm.wrist, scale(along, 0.22 * size));
  const radius = 0.185 * size;
  const cloth = sleeveColour(scene);
  const { seed, light } = scene;
  return {
    centre: add(cuff, scale(along, 1.1 * size)),
    radius: 1.4 * size,
    distance: (x, y, z) => {
      const d = sub([x, y, z], cuff);
      const t = dot(d, along);
      const bare = Math.hypot(...sub(d, scale(along, t))) - radius - 0.06 * Math.max(0, t);
      if (bare > 0.1 || t < -0.1) return 0.7 * Math.max(bare - 0.03, -t);
      const wrinkle = 0.02 * size * noise(t * 5, x * 4 + z * 3, y, seed + 5) * smoothstep(0, 0.25, t);
      return 0.7 * Math.max(bare - wrinkle, -t, t - 2.4 * size);
    },
    colour: ({ at, normal, open }) => {
      const weave = 1 + 0.06 * rough(at[0] * 90, at[1] * 90, at[2] * 90, seed);
      return tint(tint(cloth, light.on(normal)), (0.35 + 0.65 * open) * weave);
    },
  };
}

function sleeveColour({ light, seed }: Scene): Rgb {
  const codes = ['#23262e', '#1d2b45', '#4a4d52', '#dfe3e8', '#5b2330', '#6d7f95', '#3c4a3a', '#c9b79c'];
  return tint(hex(codes[Math.floor(Math.abs(seed * 7.31)) % codes.length] as string), light.white);
}

/** Returns the colour of a hand's skin: redder at knuckles and fingertips, with creases at the joints, and nails. */
export function skinColour({ at, normal, open }: Hit, bones: readonly Bone[], skin: Rgb, light: Light, seed: number): Rgb {
  const { limb, along } = nearestLimb(bones, at);
  const length = Math.hypot(...sub(limb.b, limb.a));
  const onBack = smoothstep(0.1, 0.6, dot(normal, limb.back));
  let colour = tint(skin, 1 + 0.13 * rough(at[0] * 11, at[1] * 11, at[2] * 11, seed) + 0.12 * rough(at[0] * 55, at[1] * 55, at[2] * 55, seed));
  const red = tint(skin, [1.02, 0.84, 0.82]);
  const joint = limb.kind === 'finger' || limb.kind === 'tip' ? Math.exp(-(((along * length) / 0.05) ** 2)) : 0;
  colour = blend(colour, red, 0.7 * joint * onBack + (limb.kind === 'tip' ? 0.5 * along : 0));
  if (joint > 0.05) {
    const lines = Math.sin((along * length) / 0.0045 + 2 * noise(at[0] * 30, at[1] * 30, at[2] * 30, seed));
    colour = tint(colour, 1 - 0.16 * joint * onBack * smoothstep(0.1, 0.9, lines));
  }
  let gloss = 0.035;
  if (limb.kind === 'tip') {
    const axis = mix(limb.a, limb.b, along);
    const beyond = dot(sub(at, limb.a), unit(sub(limb.b, limb.a))) / length;
    const out = unit(sub(at, axis));
    const wide = Math.acos(Math.min(1, Math.max(-1, dot(out, limb.back)))) / 0.85;
    const long = (beyond - 0.78) / 0.52;
    const nail = 1 - smoothstep(0.82, 1, Math.sqrt(wide ** 4 + long ** 4) ** 0.5);
    const rim = smoothstep(0.7, 0.95, Math.sqrt(wide ** 4 + long ** 4) ** 0.5) * nail;
    const white = smoothstep(0.8, 0.9, long);
    const plate = blend(tint(blend(skin, [luminance(skin), luminance(skin), luminance(skin)], 0.25), [1.12, 0.98, 1]), tint(skin, 1.35), white);
    colour = blend(colour, tint(plate, 1 - 0.25 * rim), nail);
    gloss += 0.12 * nail;
  }
  // Light that has passed through skin fills its folds with red.
  const deep = (power: number): number => Math.max(0.12, open) ** power;
  const shaded = tint(tint(colour, light.on(normal)), [deep(0.75), deep(0.95), deep(1)]);
  return add(shaded, scale(light.white, gloss * shine(normal, light, 14)));
}

/** Returns the share of the main light that a surface mirrors to the viewer (Blinn 1977). */
export function shine(normal: Vec, light: Light, power: number): number {
  const half = unit(add(light.towards, [0, 0, -1]));
  return Math.max(0, dot(normal, half)) ** power;
}
