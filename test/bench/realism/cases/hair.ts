import { seeded } from '@semblance/testkit/sound/random';
import { smoothstep } from '@semblance/vision/plane/plane';
import { hex, lab, luminance, type Rgb, tint } from './colour.ts';
import { composite, type Occluded, type Scene } from './composite.ts';
import { add, mix, scale, type Vec } from './head-frame.ts';
import { emptyLayer, gridOf, onGrid } from './layer.ts';
import { colourAround } from './light.ts';
import { drawStroke } from './strokes.ts';
import { faceFront, resampled } from './surface.ts';

const DYES = ['#120e0c', '#2a1a12', '#4a2e1a', '#7a5230', '#b08a55', '#8d8a86'];

/** Draws strands of hair that fall from the hairline over one eye, in the colour of the person's own hair. */
export function drawHair(scene: Scene): Occluded {
  const { head, light, seed } = scene;
  const random = seeded(seed);
  const wobble = (by: number): number => by * (2 * random() - 1);
  const grid = gridOf(scene.picture, scene.face, head);
  const layer = emptyLayer(grid);
  const side = random() < 0.5 ? -1 : 1;
  const front = faceFront(head);
  const base = hairColour(scene, random);
  const top = head.point(10);
  const eye = head.point(side < 0 ? 159 : 386);
  const cheek = head.point(side < 0 ? 123 : 352);
  const start: Vec = [top[0] + side * (0.1 - 0.2 * random()), top[1] - 0.3, top[2] + 0.2];
  const reach = 0.5 + 0.9 * random();
  const locks = 6 + Math.floor(4 * random());
  for (let lock = 0; lock < locks; lock++) {
    const share = locks > 1 ? lock / (locks - 1) : 0.5;
    const root = add(start, [side * 0.16 * share + wobble(0.02), 0.02 * share + wobble(0.02), 0]);
    const through = add(eye, [side * (share - 0.42) * 0.34 + wobble(0.03), wobble(0.03), 0]);
    const fall = add(mix(eye, cheek, 0.9), [
      side * (share - 0.35) * 0.26 + wobble(0.04),
      (reach - 0.6) * 0.45 + wobble(0.14),
      0,
    ]);
    const lightness = 1 + wobble(0.22);
    const strands = 26 + Math.floor(26 * random());
    const curl = wobble(0.05);
    for (let strand = 0; strand < strands; strand++) {
      const apart = wobble(0.028);
      const stray = strand % 9 === 0 ? 2.6 : 1;
      const line = resampled(
        [
          add(root, [apart * 0.8, wobble(0.012), 0]),
          add(mix(root, through, 0.5), [side * 0.06 + apart * 1.4 * stray + curl, -0.03 + wobble(0.01), 0]),
          add(through, [apart * 1.1 * stray - 0.4 * curl, wobble(0.01), 0]),
          add(fall, [apart * 0.25 * stray + wobble(0.006 * stray) + 0.5 * curl, wobble(0.09), 0]),
        ],
        26,
      ).map(([x, y, z]): Vec => [x, y, Math.min(z, front(x, y)) - 0.03]);
      const thick = ((0.0032 + 0.0028 * random()) * head.width) / grid.step;
      const own = lightness * (1 + wobble(0.3));
      const band = 0.28 + wobble(0.05);
      drawStroke(
        layer,
        line.map((point, k) => {
          const [x, y] = onGrid(grid, head, point);
          return { x, y, radius: Math.max(0.3, thick * (1 - 0.75 * smoothstep(0.6, 1, k / 25))) };
        }),
        (along, across) => {
          // Hair mirrors the light in a band across all strands (Kajiya and Kay 1989).
          const gleam =
            Math.exp(-(((along - band) / 0.1) ** 2)) + 0.5 * Math.exp(-(((along - 0.68) / 0.14) ** 2));
          const n: Vec = [side * 0.3 + 0.5 * across, 0, -0.8];
          const shade = own * (0.62 + 0.25 * (1 - across * across)) * (1 - 0.25 * smoothstep(0.25, 0, along));
          const body = tint(tint(base, light.on(n)), shade);
          const colour = add(body, scale(add(base, scale(light.white, 0.05)), 0.55 * gleam * own));
          return { colour, alpha: 0.9 * smoothstep(0.02, 0.22, along) };
        },
      );
    }
  }
  layer.gap = 0.04;
  layer.shade = 0.5;
  return composite(scene, layer);
}

/** Places around a head where hair is, from the crown to the temples: x and y in units of the head. */
const AROUND = [
  [-0.3, -0.75],
  [-0.15, -0.8],
  [0, -0.82],
  [0.15, -0.8],
  [0.3, -0.75],
  [-0.5, -0.5],
  [0.5, -0.5],
  [-0.56, -0.3],
  [0.56, -0.3],
  [-0.57, -0.1],
  [0.57, -0.1],
  [-0.57, 0.1],
  [0.57, 0.1],
] as const;

/** Returns the colour of the hair around the face; where there is none, a usual colour of hair. */
function hairColour({ picture, head, light, face }: Scene, random: () => number): Rgb {
  const skin = lab(light.skin);
  const behind = [0.02, 0.98].flatMap((x) =>
    [0.05, 0.2, 0.35, 0.5].map((y) =>
      colourAround(picture, x * picture.width, y * picture.height, 0.03 * face.width),
    ),
  );
  const backgrounds = behind.flatMap((colour) => (colour ? [lab(colour)] : []));
  const apart = (a: readonly number[], b: readonly number[]): number =>
    Math.hypot(...a.map((value, k) => value - (b[k] as number)));
  const found: Rgb[] = [];
  for (const [x, y] of AROUND) {
    const [px, py] = head.toPicture([x, y, 0.25]);
    const colour = colourAround(picture, px, py, 0.02 * head.width);
    if (!colour) continue;
    const own = lab(colour);
    // Black hair mirrors a blue wall; lighter hair that is as blue is mixed with the wall. Ears are shaded skin.
    const bluest = own[0] < 28 ? -9 : -1;
    const likeSkin = Math.hypot(0.4 * (own[0] - skin[0]), own[1] - skin[1], own[2] - skin[2]) < 12;
    if (own[1] > 24 || own[2] < bluest || likeSkin) continue;
    if (backgrounds.every((other) => apart(own, other) > 16)) found.push(colour);
  }
  found.sort((a, b) => luminance(a) - luminance(b));
  const dyed = tint(hex(DYES[Math.floor(DYES.length * random())] as string), light.white);
  return found.length >= 3 ? (found[Math.floor(0.65 * found.length)] as Rgb) : dyed;
}
