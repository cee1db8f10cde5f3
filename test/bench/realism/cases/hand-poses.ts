import { seeded } from '@semblance/testkit/sound/random';
import { hex, luminance, type Rgb, tint } from './colour.ts';
import { composite, type Occluded, type Scene } from './composite.ts';
import { handSolids } from './hand.ts';
import type { Pose } from './hand-bones.ts';
import { add, mix, scale, unit, type Vec } from './head-frame.ts';
import { emptyLayer, gridOf } from './layer.ts';
import type { Light } from './light.ts';
import { drawSolids } from './sdf.ts';

export type HandPlace = 'mouth' | 'cheek' | 'eye';

/** Draws a hand over a part of the face, in the tone of the face's own skin or in a clearly different one. */
export function drawHand(scene: Scene, place: HandPlace, tone: 'own' | 'other'): Occluded {
  const layer = emptyLayer(gridOf(scene.picture, scene.face, scene.head));
  const skin = tone === 'own' ? handTone(scene) : otherSkin(scene.light, scene.seed);
  drawSolids(layer, scene.head, handSolids(scene, poseAt(scene, place), skin));
  layer.gap = 0.05;
  layer.shade = 0.55;
  return composite(scene, layer);
}

/** Returns the colour of the person's own hands, which are a little darker than the face. */
export function handTone({ light }: Scene): Rgb {
  return tint(light.skin, [0.92, 0.86, 0.8]);
}

/** Reflectances of skin, from light to dark. */
const SKINS = ['#f0cdb8', '#e0b195', '#c68f6c', '#9a6444', '#6b412b', '#462a1e'];

/** Returns a skin colour that is at least 1.8 times as light or as dark as that of the face. */
function otherSkin(light: Light, seed: number): Rgb {
  const own = luminance(light.skin);
  const colours = SKINS.map((code) => tint(hex(code), light.white));
  const other = colours.filter((colour) => {
    const ratio = luminance(colour) / own;
    return ratio > 1.8 || ratio < 1 / 1.8;
  });
  return other[Math.floor(seeded(seed ^ 0x51)() * other.length)] ?? tint(light.skin, 0.4);
}

function poseAt(scene: Scene, place: HandPlace): Pose {
  const { head, seed } = scene;
  const random = seeded(seed);
  const side = random() < 0.5 ? 1 : -1;
  const wobble = (by: number): number => by * (2 * random() - 1);
  // All poses are those of a right hand, on the left of the picture; a left hand mirrors them.
  const flip = ([x, y, z]: Vec): Vec => [side * x, y, z];
  const point = (right: number, left: number): Vec => head.point(side === 1 ? right : left);
  const size = 0.95 + wobble(0.07);
  const common = { side, size, spread: 0.035 + wobble(0.045), thumb: 0.3 + wobble(0.3) } as const;
  if (place === 'mouth') {
    const mouth = mix(head.point(13), head.point(14), 0.5);
    const forward = unit([0.92, -0.3 + wobble(0.22), -0.02]);
    return {
      ...common,
      at: add(add(mouth, flip(scale(forward, -0.17 + wobble(0.08)))), [0, 0.02 + wobble(0.03), -0.13]),
      forward: flip(forward),
      back: flip([-0.12, -0.05, -1]),
      bend: [0.22 + wobble(0.1), 0.3 + wobble(0.12), 0.18],
      forearm: flip([-0.6, 0.8, 0.15]),
    };
  }
  if (place === 'eye') {
    const eye = mix(point(159, 386), point(145, 374), 0.5);
    const forward = unit([0.3 + wobble(0.2), -0.95, 0.02]);
    return {
      ...common,
      at: add(add(eye, flip(scale(forward, -0.12 + wobble(0.08)))), [0, 0, -0.17]),
      forward: flip(forward),
      back: flip([-0.25, 0.05, -1]),
      bend: [0.1 + wobble(0.08), 0.18 + wobble(0.1), 0.14],
      forearm: flip([-0.35, 0.93, 0.1]),
    };
  }
  const cheek = mix(point(205, 425), point(147, 376), 0.45);
  const forward = unit([-0.16 + wobble(0.15), -0.97, 0.16]);
  return {
    ...common,
    at: add(cheek, [side * (-0.06 + wobble(0.04)), 0.06 + wobble(0.05), -0.06]),
    forward: flip(forward),
    back: flip([-0.5, 0.05, -0.87]),
    bend: [0.16 + wobble(0.08), 0.25 + wobble(0.1), 0.2],
    forearm: flip([-0.1, 1, 0.25]),
  };
}
