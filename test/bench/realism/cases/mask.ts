import { type Random, seeded } from '@semblance/testkit/sound/random';
import { smoothstep } from '@semblance/vision/plane/plane';
import { blend, hex, type Rgb, tint } from './colour.ts';
import type { Occluded, Scene } from './composite.ts';
import { composite } from './composite.ts';
import { add, mix, scale, type Vec } from './head-frame.ts';
import { cover, emptyLayer, gridOf, type Layer, onGrid } from './layer.ts';
import { noise, rough } from './noise.ts';
import { drawStroke } from './strokes.ts';
import { drape, drawSheet, faceDepth, resampled, type Sheet, sheetNormals, smoothSheet } from './surface.ts';

export type MaskKind = 'white' | 'black' | 'blue' | 'skin' | 'patterned';

/** Points of the upper edge, from ear to ear over the nose. */
const TOP = [137, 123, 50, 142, 197, 371, 280, 352, 366] as const;
/** Points of the jaw under them. */
const BOTTOM = [132, 58, 136, 149, 152, 378, 365, 288, 361] as const;
const ROWS = 90;
const COLUMNS = 90;

/** Draws a surgical mask over nose, mouth and chin, with pleats, seams and loops to the ears. */
export function drawMask(scene: Scene, kind: MaskKind): Occluded {
  const { head, light, seed } = scene;
  const random = seeded(seed);
  const grid = gridOf(scene.picture, scene.face, head);
  const layer = emptyLayer(grid);
  const sheet = maskSheet(scene, random);
  const depth = faceDepth(head, grid);
  const dye = dyeOf(kind, scene, random);
  for (const row of [0.07, 0.93])
    drawLoops(layer, scene, sheet, { row, depth, colour: tint(light.white, kind === 'black' ? 0.05 : 0.8) });
  const drawn = drawSheet(sheet, grid, head);
  for (let i = 0; i < drawn.z.length; i++) {
    if (drawn.z[i] === Infinity || (drawn.z[i] as number) > (depth[i] as number) + 0.02 * head.width)
      continue;
    const [u, v] = [drawn.u[i] as number, drawn.v[i] as number];
    const n: Vec = [0, 1, 2].map((k) => drawn.normal[i * 3 + k] as number) as unknown as Vec;
    const side = Math.min(u, 1 - u);
    const border = Math.min(v, 1 - v, 0.8 * side);
    // Cloth lets light through where it is single, and is denser and darker along its hems.
    const hem = border < 0.035 ? 0.93 - 0.1 * smoothstep(0.02, 0.035, border) : 1;
    const stitch = Math.abs(border - 0.045) < 0.006 && Math.sin(u * 260 + v * 260) > 0.1 ? 0.85 : 1;
    const weave = 1 + 0.035 * rough(u * 160, v * 130, 0, seed) + 0.02 * rough(u * 24, v * 18, 3, seed);
    const e = light.on(n);
    // The cloth scatters light, so its shades differ less than those of skin.
    const soft: Rgb = [0, 1, 2].map((c) => 0.15 + 0.85 * (e[c as 0] as number)) as unknown as Rgb;
    cover(layer, i, tint(tint(dye(u, v), soft), hem * stitch * weave * foldLight(sheet, u, v)), 1);
  }
  layer.gap = 0.03;
  layer.shade = 0.4;
  return composite(scene, layer);
}

/** Returns how far a place is below the edge of a pleat, as a share of the height of the cloth. */
function pleatOffset(u: number, v: number, at: number, seed: number): number {
  return v - at - 0.012 * noise(u * 4, at * 40, 0, seed);
}

/** A pleat opens in the middle and keeps its sharp edge at the sides. */
function flat(side: number): number {
  return 0.45 + 0.55 * smoothstep(0.5, 0.12, side);
}

/** Returns the light that folds leave: less under the edge of each pleat and in creases. */
function foldLight(cloth: Cloth, u: number, v: number): number {
  const side = Math.min(u, 1 - u);
  let light = 1;
  for (const at of cloth.pleats) {
    const t = pleatOffset(u, v, at, cloth.seed);
    if (t > 0 && t < 0.06) light *= 1 - 0.3 * (1 - t / 0.06) ** 2 * flat(side) * smoothstep(0, 0.01, t);
  }
  const crease =
    noise(u * 9 + v * 3, (v - 0.5) * (3 + 16 * side), 1, cloth.seed) * smoothstep(0.34, 0.08, side);
  return light * (1 + 0.12 * crease + 0.05 * rough(u * 5, v * 6, 2, cloth.seed));
}

interface Cloth extends Sheet {
  /** Heights of the pleats as shares of the height of the cloth. */
  readonly pleats: readonly number[];
  readonly seed: number;
}

/** Returns the cloth: tented from the nose over the chin, with three pleats and the creases of wearing. */
function maskSheet(scene: Scene, random: Random): Cloth {
  const { head, seed } = scene;
  const slack = 0.05 + 0.04 * random();
  const raise = -0.02 + 0.07 * random();
  const lift = 0.2 + 0.1 * random();
  const top = TOP.map((index, k): Vec => {
    const middle = 1 - Math.abs(k - 4) / 4;
    const higher = k === 4 ? raise : 0.5 * raise;
    const [x, y, z] = head.point(index);
    return [x, y - higher, z - 0.012 - 0.01 * middle];
  });
  const bottom = BOTTOM.map((index, k): Vec => {
    const middle = 1 - (Math.abs(k - 4) / 4) ** 2;
    const [x, y, z] = head.point(index);
    return [x * (0.97 + 0.06 * middle), y + 0.075 * middle - 0.02 * (1 - middle), z + 0.03 * middle];
  });
  const nose = head.point(4);
  const chin = head.point(199);
  const rows = [0, 0.25, 0.5, 0.75, 1].map((v) =>
    top.map((from, k): Vec => {
      const to = bottom[k] as Vec;
      const [x, y, z] = mix(from, to, v);
      const middle = Math.max(0, 1 - Math.abs(k - 4) / 3.2);
      const tent = mix(nose, chin, Math.min(1, Math.max(0, (v - 0.2) / 0.6)))[2] - slack;
      const bulge = smoothstep(0, 0.3, v) * (1 - smoothstep(0.72, 1, v));
      const out = Math.sin((Math.PI * middle) / 2) ** 1.6 * bulge;
      return [x, y, Math.min(z, z + (tent - z) * out)];
    }),
  );
  const draped = drape(smoothSheet(rows, ROWS, COLUMNS), head, 0.022, 40);
  const pleats = [lift, lift + 0.19, lift + 0.38];
  const normals = sheetNormals(draped);
  const points = draped.points.map((point, i): Vec => {
    const [u, v] = [(i % COLUMNS) / (COLUMNS - 1), Math.floor(i / COLUMNS) / (ROWS - 1)];
    const side = Math.min(u, 1 - u);
    let height = 0;
    for (const at of pleats) {
      const t = pleatOffset(u, v, at, seed);
      height +=
        t > -0.16 && t < 0.012 ? 0.02 * (1 + t / 0.16) * (1 - smoothstep(0, 0.012, t)) * flat(side) : 0;
    }
    const wire = 0.006 * Math.exp(-(((v - 0.06) / 0.018) ** 2)) * smoothstep(0.2, 0.32, side);
    const pulled =
      0.012 * noise(u * 9 + v * 3, (v - 0.5) * (3 + 16 * side), 1, seed) * smoothstep(0.34, 0.08, side);
    const crumpled = 0.007 * rough(u * 5, v * 6, 2, seed);
    const inner = smoothstep(0, 0.05, Math.min(side, v, 1 - v));
    return add(point, scale(normals[i] as Vec, height + wire + (pulled + crumpled) * inner));
  });
  return { ...draped, points, pleats, seed };
}

function drawLoops(
  layer: Layer,
  scene: Scene,
  sheet: Sheet,
  loop: { row: number; depth: Float32Array; colour: Rgb },
): void {
  const { head, light } = scene;
  const { grid } = layer;
  const r = Math.round(loop.row * (ROWS - 1));
  for (const [column, ear] of [
    [0, 234],
    [COLUMNS - 1, 454],
  ] as const) {
    const from = sheet.points[r * COLUMNS + column] as Vec;
    const [x, y, z] = head.point(ear);
    const high = loop.row < 0.5;
    const to: Vec = [x * 1.07, y + (high ? -0.05 : 0.16), z + 0.06];
    const bend: Vec = add(mix(from, to, 0.5), [0, high ? -0.015 : 0.02, -0.02]);
    const line = resampled([from, bend, to], 24).map((point) => onGrid(grid, head, point));
    const radius = (0.008 * head.width) / grid.step;
    drawStroke(
      layer,
      line.map(([px, py]) => ({ x: px, y: py, radius })),
      (along, across, i) => {
        const [, , pz] = line[Math.min(23, Math.round(along * 23))] as Vec;
        const hidden = pz > (loop.depth[i] as number) + 0.06 * head.width;
        const n: Vec = [0, across * 0.7, -0.7];
        return {
          colour: tint(tint(loop.colour, light.on(n)), 1 - 0.25 * across * across),
          alpha: hidden ? 0 : 1,
        };
      },
    );
  }
}

/** Returns the colour of the cloth by its place. */
function dyeOf(kind: MaskKind, { light, seed }: Scene, random: Random): (u: number, v: number) => Rgb {
  const vary = (code: string, by: number): Rgb => {
    const shift = 1 + by * (random() - 0.5);
    return tint(tint(hex(code), light.white), shift);
  };
  if (kind === 'white') return always(vary('#f1f3f5', 0.12));
  if (kind === 'black') return always(vary('#26262a', 0.5));
  if (kind === 'blue') return always(blend(vary('#8fbcdc', 0.2), vary('#6aa6b8', 0.2), random()));
  if (kind === 'skin') return always(blend(light.skin, tint(light.white, 0.6), 0.12 * random()));
  const ground = vary(['#d9c7b4', '#3c4a63', '#8b2f3c', '#e6dfe8'][Math.floor(4 * random())] as string, 0.2);
  const figure = vary(['#f0e6d2', '#c8553d', '#e3b23c', '#4c6b58'][Math.floor(4 * random())] as string, 0.2);
  const size = 9 + 6 * random();
  return (u, v) => {
    // Blossoms on an offset lattice.
    const [x, y] = [u * size, v * size * 0.75];
    const row = Math.floor(y);
    const [dx, dy] = [x + 0.5 * (row & 1) - Math.floor(x + 0.5 * (row & 1)) - 0.5, y - row - 0.5];
    const petals = 0.27 + 0.09 * Math.cos(5 * Math.atan2(dy, dx) + seed);
    const distance = Math.hypot(dx, dy);
    return distance < 0.09
      ? blend(figure, ground, 0.5)
      : blend(figure, ground, smoothstep(petals - 0.04, petals + 0.04, distance));
  };
}

function always(colour: Rgb): () => Rgb {
  return () => colour;
}
