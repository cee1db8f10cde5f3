import { smoothstep } from '@semblance/vision/plane/plane';
import { blend, luminance, type Rgb, tint } from './colour.ts';
import type { Scene } from './composite.ts';
import { type Bone, bonesOf, type Pose } from './hand-bones.ts';
import { add, dot, mix, scale, sub, unit, type Vec } from './head-frame.ts';
import type { Light } from './light.ts';
import { noise, rough } from './noise.ts';
import { type Hit, limbsDistance, nearestLimb, type Solid } from './sdf.ts';
import { sleeve } from './sleeve.ts';

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

/** Returns the colour of a hand's skin: redder at knuckles and fingertips, with creases at the joints, and nails. */
export function skinColour(
  { at, normal, open }: Hit,
  bones: readonly Bone[],
  skin: Rgb,
  light: Light,
  seed: number,
): Rgb {
  const { limb, along } = nearestLimb(bones, at);
  const length = Math.hypot(...sub(limb.b, limb.a));
  const onBack = smoothstep(0.1, 0.6, dot(normal, limb.back));
  let colour = tint(
    skin,
    1 +
      0.13 * rough(at[0] * 11, at[1] * 11, at[2] * 11, seed) +
      0.12 * rough(at[0] * 55, at[1] * 55, at[2] * 55, seed),
  );
  const red = tint(skin, [1.02, 0.84, 0.82]);
  const joint =
    limb.kind === 'finger' || limb.kind === 'tip' ? Math.exp(-(((along * length) / 0.05) ** 2)) : 0;
  colour = blend(colour, red, 0.7 * joint * onBack + (limb.kind === 'tip' ? 0.5 * along : 0));
  if (joint > 0.05) {
    const lines = Math.sin((along * length) / 0.0045 + 2 * noise(at[0] * 30, at[1] * 30, at[2] * 30, seed));
    colour = tint(colour, 1 - 0.16 * joint * onBack * smoothstep(0.1, 0.9, lines));
  }
  let gloss = 0.018;
  if (limb.kind === 'tip') {
    const axis = mix(limb.a, limb.b, along);
    const beyond = dot(sub(at, limb.a), unit(sub(limb.b, limb.a))) / length;
    const out = unit(sub(at, axis));
    const wide = Math.acos(Math.min(1, Math.max(-1, dot(out, limb.back)))) / 0.85;
    const long = (beyond - 0.78) / 0.52;
    const nail = 1 - smoothstep(0.82, 1, Math.sqrt(wide ** 4 + long ** 4) ** 0.5);
    const rim = smoothstep(0.7, 0.95, Math.sqrt(wide ** 4 + long ** 4) ** 0.5) * nail;
    const white = smoothstep(0.8, 0.9, long);
    const plate = blend(
      tint(blend(skin, [luminance(skin), luminance(skin), luminance(skin)], 0.25), [1.12, 0.98, 1]),
      tint(skin, 1.35),
      white,
    );
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
