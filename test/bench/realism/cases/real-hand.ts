import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { seeded } from '@semblance/testkit/sound/random';
import { blur, grow, type Plane, plane, sample } from '@semblance/vision/plane/plane';
import { readRgb } from '../../photo-swap/portraits.ts';
import { lab, linear, type Rgb } from './colour.ts';
import { composite, type Occluded, type Scene } from './composite.ts';
import { mix, unit, type Vec } from './head-frame.ts';
import { emptyLayer, gridOf, samplePlace, stack } from './layer.ts';
import { drawSolids } from './sdf.ts';
import { sleeve } from './sleeve.ts';

/** Photographs of a hand in front of a pale wall, which the package `fingerpose` (MIT) carries for its own page. */
const PHOTOGRAPHS = {
  mouth: { file: 'fullcurl.jpg', middle: [252, 345] },
  eye: { file: 'nocurl.jpg', middle: [214, 190] },
} as const;
/** Pixels of the photographs in one face width: the hand is some 11 cm wide in them, a face 14 cm. */
const FACE_WIDTH = 305;
/** Place of the wrist, and the way of the forearm, in the photographs. */
const WRIST = [205, 545] as const;
const FOREARM = [-0.36, 0.93] as const;
/** Redness (a* of Lab) from which a pixel is skin. */
const SKIN = 9;
/** Width of the gaps in the skin that are closed, such as dark folds and hair, and softness of its edge, in pixels. */
const GAP = 7;
const SOFT = 0.8;
/** Size of the sleeve, in face widths. */
const SLEEVE = 1.45;
/** Lightness that a white surface would have in the photographs, relative to the wall. */
const WHITE = 1.25;

export type RealHandPlace = keyof typeof PHOTOGRAPHS;

interface Photograph {
  readonly light: readonly [Plane, Plane, Plane];
  readonly alpha: Plane;
  /** Colour of a white surface, linear. */
  readonly white: Rgb;
}

/** Puts a photographed hand over mouth or eye, in the light of the picture. */
export async function drawRealHand(scene: Scene, place: RealHandPlace): Promise<Occluded> {
  const { file, middle } = PHOTOGRAPHS[place];
  const photograph = await readPhotograph(file);
  const { head, face, picture, light, seed } = scene;
  const layer = emptyLayer(gridOf(picture, face, head));
  const random = seeded(seed);
  const side = random() < 0.5 ? 1 : -1;
  const angle = 0.3 * (2 * random() - 1);
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  const at: Vec =
    place === 'mouth'
      ? mix(head.point(13), head.point(14), 0.5)
      : mix(head.point(side === 1 ? 159 : 386), head.point(side === 1 ? 145 : 374), 0.5);
  const gain = [0, 1, 2].map((c) => (light.white[c as 0] as number) / photograph.white[c as 0]);
  for (let y = 0, i = 0; y < layer.grid.height; y++) {
    for (let x = 0; x < layer.grid.width; x++, i++) {
      const [px, py] = samplePlace(layer.grid, x, y);
      const [u, v] = head.toHead([px, py, head.toPicture(at)[2]]);
      const [du, dv] = [side * (u - at[0]), v - at[1]];
      const sx = middle[0] + FACE_WIDTH * (cos * du + sin * dv);
      const sy = middle[1] + FACE_WIDTH * (cos * dv - sin * du);
      const { alpha } = photograph;
      if (sx < 0 || sy < 0 || sx >= alpha.width || sy >= alpha.height) continue;
      const a = sample(alpha, sx, sy);
      if (a <= 0) continue;
      layer.alpha[i] = a;
      for (const [c, channel] of photograph.light.entries())
        layer.light[i * 3 + c] = a * (gain[c] as number) * sample(channel, sx, sy);
    }
  }
  // The photograph ends above the elbow; a sleeve takes the arm out of the picture.
  const onHead = (dx: number, dy: number): readonly [number, number] => [
    side * (cos * dx - sin * dy),
    sin * dx + cos * dy,
  ];
  const [wx, wy] = onHead((WRIST[0] - middle[0]) / FACE_WIDTH, (WRIST[1] - middle[1]) / FACE_WIDTH);
  const cuff = emptyLayer(layer.grid);
  const arm = {
    wrist: [at[0] + wx, at[1] + wy, at[2] - 0.15] as Vec,
    along: unit([...onHead(...FOREARM), 0.1]),
  };
  drawSolids(cuff, head, [sleeve(scene, { ...arm, size: SLEEVE })]);
  stack(layer, cuff);
  layer.gap = 0.05;
  layer.shade = 0.55;
  return composite(scene, layer);
}

const read = new Map<string, Promise<Photograph>>();

function readPhotograph(file: string): Promise<Photograph> {
  const known = read.get(file) ?? cutOut(file);
  read.set(file, known);
  return known;
}

/** Cuts the hand out: skin is redder than the wall and its shadows. */
async function cutOut(file: string): Promise<Photograph> {
  const folder = dirname(fileURLToPath(import.meta.resolve('fingerpose/package.json')));
  const { width, height, data } = await readRgb(join(folder, 'assets', file));
  const light = [plane(width, height), plane(width, height), plane(width, height)] as const;
  const skin = plane(width, height);
  const wall = [0, 0, 0];
  let count = 0;
  for (let i = 0; i < skin.data.length; i++) {
    const rgb = [0, 1, 2].map((c) => linear(data[i * 3 + c] as number));
    for (const [c, channel] of light.entries()) channel.data[i] = rgb[c] as number;
    if (lab(rgb)[1] > SKIN) {
      skin.data[i] = 1;
      continue;
    }
    count++;
    for (const [c, value] of rgb.entries()) wall[c] = (wall[c] as number) + value;
  }
  const white = wall.map((sum) => (WHITE * sum) / count) as unknown as Rgb;
  return { light, alpha: blur(grow(grow(skin, GAP), -GAP), SOFT), white };
}
