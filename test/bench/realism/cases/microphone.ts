import { type Random, seeded } from '@semblance/testkit/sound/random';
import { smoothstep } from '@semblance/vision/plane/plane';
import { hex, type Rgb, tint } from './colour.ts';
import { composite, type Occluded, type Scene } from './composite.ts';
import { handGrip } from './grip.ts';
import { shine } from './hand.ts';
import { add, cross, dot, mix, scale, sub, unit, type Vec } from './head-frame.ts';
import { emptyLayer, gridOf } from './layer.ts';
import { noise } from './noise.ts';
import { drawSolids, type Hit, type Solid } from './sdf.ts';

/** Draws a microphone in front of the mouth, with the hand that holds it. */
export function drawMicrophone(scene: Scene): Occluded {
  const { head } = scene;
  const random = seeded(scene.seed);
  const wobble = (by: number): number => by * (2 * random() - 1);
  const layer = emptyLayer(gridOf(scene.picture, scene.face, head));
  const mouth = mix(head.point(13), head.point(14), 0.5);
  const size = 0.16 + wobble(0.03);
  const top = add(mouth, [wobble(0.06), 0.06 + wobble(0.04), -0.2]);
  const down = unit([wobble(0.35), 1, -0.25 + wobble(0.15)]);
  const grip = add(top, scale(down, 0.62 + wobble(0.08)));
  drawSolids(layer, head, [
    microphone(scene, { top, down, size }, random),
    ...handGrip(scene, {
      at: grip,
      along: scale(down, -1),
      radius: 0.36 * size,
      side: random() < 0.5 ? 1 : -1,
    }),
  ]);
  layer.gap = 0.11;
  layer.shade = 0.5;
  return composite(scene, layer);
}

interface Place {
  /** Middle of the head of the microphone. */
  readonly top: Vec;
  /** Direction of the handle. */
  readonly down: Vec;
  /** Radius of the head. */
  readonly size: number;
}

function microphone(scene: Scene, { top, down, size }: Place, random: Random): Solid {
  const foam = random() < 0.45;
  const metal = hex(['#8d9096', '#3a3b3f', '#b49a5a'][Math.floor(3 * random())] as string);
  const foamColour = hex(['#191a1c', '#1e2f6b', '#8c1d24', '#c9a11a'][Math.floor(4 * random())] as string);
  const body = hex(['#18191b', '#2a2c30', '#8a8d92'][Math.floor(3 * random())] as string);
  const across = unit(cross(down, [0, 0, 1]));
  const front = cross(across, down);
  const along = (p: Vec): number => dot(sub(p, top), down);
  const distance = (x: number, y: number, z: number): number => {
    const d: Vec = [x - top[0], y - top[1], z - top[2]];
    const t = dot(d, down);
    const aside = Math.hypot(...sub(d, scale(down, t)));
    const ball = Math.hypot(aside, Math.max(0, t < 0 ? -t : t * 0.9)) - size;
    const lump = foam && Math.abs(ball) < 0.02 ? 0.003 * noise(x * 60, y * 60, z * 60, scene.seed) : 0;
    const taper = 0.62 * size - 0.2 * size * smoothstep(size, 0.9, t);
    const handle = Math.max(aside - taper, 0.5 * size - t, t - 1.6);
    const ring = foam
      ? Infinity
      : Math.hypot(Math.max(0, aside - size * 0.96), Math.max(0, Math.abs(t - 0.12 * size) - 0.1 * size)) -
        0.006;
    return 0.85 * Math.min(ball + lump, handle, ring);
  };
  const colour = ({ at, normal, open }: Hit): Rgb => {
    const t = along(at);
    const { light } = scene;
    const d = sub(at, top);
    const lit = (albedo: Rgb): Rgb =>
      tint(tint(tint(albedo, light.white), light.on(normal)), 0.25 + 0.75 * open);
    const mirrored = (amount: number, power: number): Rgb =>
      scale(light.white, amount * shine(normal, light, power));
    const onBall = Math.hypot(...d) < size * 1.08 && t < size * 0.8;
    if (onBall && foam) {
      const pores = 0.75 + 0.5 * noise(at[0] * 130, at[1] * 130, at[2] * 130, scene.seed + 9);
      return add(tint(lit(foamColour), pores), mirrored(0.03, 4));
    }
    if (onBall && Math.abs(t - 0.12 * size) > 0.12 * size) {
      // Woven wire, darker in its meshes.
      const u = Math.atan2(dot(d, across), -dot(d, front)) * 22;
      const v = (t / size) * 22;
      const mesh = 0.5 + 0.5 * Math.cos(u + v) * Math.cos(u - v);
      return add(tint(lit(metal), 0.35 + 0.65 * mesh), mirrored(0.5 * (0.3 + 0.7 * mesh), 12));
    }
    if (t < size * 0.8) return add(lit(tint(metal, 0.9)), mirrored(0.6, 20));
    return add(lit(body), mirrored(0.25, 24));
  };
  return { centre: add(top, scale(down, 0.75)), radius: 1.1, distance, colour };
}
