import { seeded } from '@semblance/testkit/sound/random';
import { smoothstep } from '@semblance/vision/plane/plane';
import { blend, hex, tint } from './colour.ts';
import { composite, type Occluded, type Scene } from './composite.ts';
import { add, scale, type Vec } from './head-frame.ts';
import { cover, emptyLayer, gridOf } from './layer.ts';
import { noise, rough } from './noise.ts';
import { drape, drawSheet, faceDepth, type Sheet, sheetNormals, smoothSheet } from './surface.ts';

const WOOLS = ['#7d2027', '#22304f', '#8c8a86', '#3d5a45', '#c4a36a', '#d8d2c6', '#4b3a52', '#2a2a2d'];
const SIZE = 110;

/** Draws a scarf wound around neck, chin and mouth. */
export function drawScarf(scene: Scene): Occluded {
  const { head, light, seed } = scene;
  const random = seeded(seed);
  const layer = emptyLayer(gridOf(scene.picture, scene.face, head));
  const { grid } = layer;
  const wool = tint(hex(WOOLS[Math.floor(WOOLS.length * random())] as string), light.white);
  const second = tint(hex(WOOLS[Math.floor(WOOLS.length * random())] as string), light.white);
  const pattern = Math.floor(3 * random());
  const knit = 24 + 14 * random();
  const depth = faceDepth(head, grid);
  for (const turn of [1, 0] as const) {
    const sheet = scarfSheet(scene, turn, random);
    const drawn = drawSheet(sheet, grid, head);
    for (let i = 0; i < drawn.z.length; i++) {
      if (drawn.z[i] === Infinity || (drawn.z[i] as number) > (depth[i] as number) + 0.02 * head.width)
        continue;
      const [u, v] = [drawn.u[i] as number, drawn.v[i] as number];
      const n = [0, 1, 2].map((k) => drawn.normal[i * 3 + k] as number) as unknown as Vec;
      // Rows of slanted stitches.
      const [x, y] = [u * knit * 2.2, v * knit * (turn ? 1.2 : 1)];
      const slant = y + 0.45 * Math.abs((x % 1) - 0.5) * 2;
      const stitch = 0.5 + 0.5 * Math.cos(2 * Math.PI * slant) * (0.5 + 0.5 * Math.cos(2 * Math.PI * x));
      const fuzz = rough(u * 150, v * 120, turn, seed);
      const stripes = pattern === 1 ? smoothstep(0.25, 0.32, Math.abs(((v * 5) % 1) - 0.5)) : 0;
      const checks =
        pattern === 2
          ? 0.5 *
            (smoothstep(0.3, 0.33, Math.abs(((u * 9) % 1) - 0.5)) +
              smoothstep(0.3, 0.33, Math.abs(((v * 4) % 1) - 0.5)))
          : 0;
      const dyed = blend(wool, second, Math.max(stripes, checks));
      const fold = foldAt(u, v, turn, seed);
      const edge = Math.min(v, 1 - v);
      const hollow = (0.5 + 0.55 * smoothstep(-0.8, 0.5, fold)) * (0.72 + 0.28 * smoothstep(0, 0.07, edge));
      cover(layer, i, tint(tint(dyed, light.on(n)), hollow * (0.8 + 0.25 * stitch) * (1 + 0.1 * fuzz)), 1);
    }
  }
  layer.gap = 0.05;
  layer.shade = 0.5;
  return composite(scene, layer);
}

/** Returns the height of the folds, -1 to 1: they run along the scarf and sag in the middle. */
function foldAt(u: number, v: number, turn: number, seed: number): number {
  const sag = 0.9 * (u - 0.5) ** 2 + 0.35 * (u - 0.5) * ((seed & 1) - 0.5);
  return (
    noise(u * 1.6 + turn * 7, (v + sag) * 5 + 0.4 * noise(u * 3, v * 2, 5, seed), turn, seed) +
    0.4 * noise(u * 7, (v + sag) * 14, turn + 2, seed)
  );
}

/** Returns one turn of the scarf: 0 over mouth and chin, 1 below it around the neck. */
function scarfSheet(scene: Scene, turn: 0 | 1, random: () => number): Sheet {
  const { head, seed } = scene;
  const wobble = (by: number): number => by * (2 * random() - 1);
  const tip = head.point(2);
  const chin = head.point(152);
  const tilt = wobble(0.08);
  const high = turn === 0 ? tip[1] + 0.02 + wobble(0.05) : chin[1] + 0.08;
  const low = turn === 0 ? chin[1] + 0.2 + wobble(0.04) : chin[1] + 0.62;
  const wide = turn === 0 ? 0.58 : 0.78;
  const rows = [0, 0.12, 0.4, 0.7, 0.9, 1].map((v) => {
    // The cloth is rolled in at both edges.
    const roll = 0.14 * Math.sqrt(Math.max(0, 1 - (2 * v - 1) ** 2));
    return [-1, -0.8, -0.5, -0.2, 0.2, 0.5, 0.8, 1].map((s): Vec => {
      const corner = 0.16 * s ** 8 * (1 - v) - 0.1 * s ** 8 * v;
      const y = high + (low - high) * v + 0.09 * (1 - s * s) - 0.05 + tilt * s + corner;
      const round = 0.62 - 0.85 * Math.sqrt(Math.max(0, 1 - (0.92 * s) ** 2));
      return [s * (wide + 0.08 * v), y, round + (turn === 0 ? 0.06 * v : 0.12) - roll];
    });
  });
  const sheet = drape(smoothSheet(rows, SIZE, SIZE), head, 0.045, 12);
  const normals = sheetNormals(sheet);
  const points = sheet.points.map((point, i): Vec => {
    const [u, v] = [(i % SIZE) / (SIZE - 1), Math.floor(i / SIZE) / (SIZE - 1)];
    const wave = 0.012 * noise(u * 6, turn, v > 0.5 ? 1 : 0, seed);
    return add(add(point, scale(normals[i] as Vec, 0.045 * foldAt(u, v, turn, seed))), [0, wave, 0]);
  });
  return { ...sheet, points };
}
