import type { Scene } from './composite.ts';
import { skinColour } from './hand.ts';
import type { Bone } from './hand-bones.ts';
import { handTone } from './hand-poses.ts';
import { add, cross, scale, unit, type Vec } from './head-frame.ts';
import { limbsDistance, type Solid } from './sdf.ts';
import { sleeve } from './sleeve.ts';

export interface Grip {
  /** Place on the axis of the held thing, between the middle fingers. */
  readonly at: Vec;
  /** Direction of that axis towards the thumb's end. */
  readonly along: Vec;
  /** Radius of the held thing. */
  readonly radius: number;
  /** 1 when the palm is at the left of the picture. */
  readonly side: 1 | -1;
}

/** Returns a hand that is closed around a rod or a cup: four fingers over its front, the thumb beside them. */
export function handGrip(scene: Scene, grip: Grip): Solid[] {
  const y = unit(grip.along);
  // The palm lies at the side of the thing, and the fingers come around its front.
  const out = unit(cross(y, [grip.side, 0, 0]));
  const toViewer = out[2] < 0 ? out : scale(out, -1);
  const x = scale(unit(cross(y, toViewer)), 1);
  const right = x[0] * grip.side > 0 ? x : scale(x, -1);
  const r = grip.radius;
  const thick = 0.066;
  // Angles around the axis: 0 points to the viewer, positive to the side of the fingertips.
  const around = (angle: number, reach: number, height: number): Vec =>
    add(
      add(grip.at, scale(y, height)),
      add(scale(toViewer, reach * Math.cos(angle)), scale(right, reach * Math.sin(angle))),
    );
  const bones: Bone[] = [];
  const bone = (
    kind: Bone['kind'],
    chain: number,
    ends: readonly [Vec, Vec],
    radii: readonly [number, number],
    melt: number,
    back: Vec,
  ): void => {
    bones.push({ kind, chain, a: ends[0], b: ends[1], ra: radii[0], rb: radii[1], melt, back });
  };
  const knuckleAt = (k: number): Vec => around(-1.35, r + 0.12, 0.19 - 0.125 * k);
  for (let k = 0; k < 4; k++) {
    const heel = around(-2.2, r + 0.2, 0.06 - 0.09 * k);
    bone('palm', 0, [heel, knuckleAt(k)], [0.1, 0.085], 0.09, scale(right, -1));
  }
  const wrist = around(-2.0, r + 0.3, -0.22);
  bone('palm', 0, [around(-2.1, r + 0.2, 0), wrist], [0.13, 0.12], 0.12, scale(right, -1));
  const arm = unit([-0.55 * grip.side, 1, 0.25]);
  bone('arm', 0, [wrist, add(wrist, scale(arm, 0.8))], [0.12, 0.15], 0.1, toViewer);
  for (let k = 0; k < 4; k++) {
    const height = 0.19 - 0.125 * k;
    const reach = r + thick;
    // A thin rod is clasped further around than a cup.
    const sweep = Math.min(1.9, 0.5 / (r + 0.1)) * (k === 3 ? 0.8 : 1);
    const angles = [-1.25, -1.25 + 0.5 * sweep, -1.25 + 0.85 * sweep, -1.25 + 1.2 * sweep];
    const places = angles.map((angle, j) =>
      around(angle, reach + (j === 0 ? 0.03 : j === 1 ? 0.02 : 0), height - 0.015 * j),
    );
    for (let j = 0; j < 3; j++) {
      const thin = [1.08, 1, 0.9, 0.72].map((part) => part * thick * (k === 3 ? 0.88 : 1));
      const middle = ((angles[j] as number) + (angles[j + 1] as number)) / 2;
      const back = add(scale(toViewer, Math.cos(middle)), scale(right, Math.sin(middle)));
      const ends = [places[j] as Vec, places[j + 1] as Vec] as const;
      bone(j === 2 ? 'tip' : 'finger', k + 1, ends, [thin[j] as number, thin[j + 1] as number], 0.025, back);
    }
  }
  const thumb = [around(-1.7, r + 0.12, 0.2), around(-1.0, r + 0.1, 0.31), around(-0.25, r + 0.07, 0.33)];
  for (let j = 0; j < 2; j++) {
    bone(
      j === 1 ? 'tip' : 'finger',
      6,
      [thumb[j] as Vec, thumb[j + 1] as Vec],
      [0.078 - 0.012 * j, 0.068 - 0.018 * j],
      0.03,
      toViewer,
    );
  }
  const skin = handTone(scene);
  return [
    {
      centre: grip.at,
      radius: 1.3 + r,
      distance: limbsDistance(bones, 0.02),
      colour: (hit) => skinColour(hit, bones, skin, scene.light, scene.seed),
    },
    sleeve(scene, { wrist, along: arm, size: 1 }),
  ];
}
