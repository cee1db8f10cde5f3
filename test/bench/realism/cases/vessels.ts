import { seeded } from '@semblance/testkit/sound/random';
import { smoothstep } from '@semblance/vision/plane/plane';
import { blend, hex, linear, type Rgb, tint } from './colour.ts';
import { composite, type Occluded, type Scene } from './composite.ts';
import { handGrip } from './grip.ts';
import { shine } from './hand.ts';
import { add, cross, dot, mix, scale, sub, unit, type Vec } from './head-frame.ts';
import { cover, emptyLayer, gridOf, onGrid, stack } from './layer.ts';
import { noise } from './noise.ts';
import { drawSolids, type Hit, type Solid } from './sdf.ts';

/** Draws a mug from which the person drinks: its rim is at the upper lip, and a hand holds it. */
export function drawMug(scene: Scene): Occluded {
  const { head, light, seed } = scene;
  const random = seeded(seed);
  const wobble = (by: number): number => by * (2 * random() - 1);
  const layer = emptyLayer(gridOf(scene.picture, scene.face, head));
  const radius = 0.29 + wobble(0.03);
  const height = 0.62 + wobble(0.06);
  const lip = head.point(0);
  // The mug is tipped towards the mouth, so that the viewer looks at its wall and a little at its bottom.
  const down = unit([wobble(0.12), 1, -0.3 + wobble(0.2)]);
  const top = add(lip, [wobble(0.04), 0.01, -radius - 0.03]);
  const glaze = hex(
    ['#f2f0ea', '#22304f', '#a8322d', '#2f5d50', '#d9a441', '#303236'][Math.floor(6 * random())] as string,
  );
  const band = random() < 0.5;
  const side = random() < 0.5 ? 1 : -1;
  const right = unit(cross(down, [0, 0, -1]));
  const handleAt = add(
    add(top, scale(down, 0.5 * height)),
    scale(right, -side * right[0] > 0 ? radius : -radius),
  );
  const distance = (x: number, y: number, z: number): number => {
    const d = sub([x, y, z], top);
    const t = dot(d, down);
    const aside = Math.hypot(...sub(d, scale(down, t)));
    const wall =
      Math.hypot(Math.max(0, aside - radius + 0.03), Math.max(0, -t + 0.02, t - height + 0.03)) - 0.03;
    const hollow = Math.max(aside - radius + 0.035, t - height + 0.08);
    const h = sub([x, y, z], handleAt);
    const depth = dot(h, cross(right, down));
    const ring = Math.hypot(Math.hypot(dot(h, right), dot(h, down)) - 0.17, depth) - 0.035;
    return 0.9 * Math.min(Math.max(wall, -hollow), ring);
  };
  const colour = ({ at, normal, open }: Hit): Rgb => {
    const t = dot(sub(at, top), down) / height;
    const dyed = band && t > 0.62 && t < 0.72 ? blend(glaze, hex('#e8e2d4'), 0.85) : glaze;
    const lit = tint(tint(tint(dyed, light.white), light.on(normal)), 0.2 + 0.8 * open);
    // A window mirrored in the glaze, bent along the wall.
    const window =
      smoothstep(0.86, 0.92, shine(normal, light, 1)) *
      smoothstep(0.1, 0.16, t) *
      (1 - smoothstep(0.6, 0.8, t));
    return add(lit, scale(light.white, 0.05 + 0.32 * window + 0.2 * shine(normal, light, 40)));
  };
  const mug: Solid = { centre: add(top, scale(down, 0.5 * height)), radius: 0.75, distance, colour };
  const grip = {
    at: add(top, scale(down, 0.52 * height)),
    along: scale(down, -1),
    radius,
    side: side as 1 | -1,
  };
  drawSolids(layer, head, [mug, ...handGrip(scene, grip)]);
  layer.gap = 0.1;
  layer.shade = 0.5;
  return composite(scene, layer);
}

const DRINKS = [undefined, '#b5651d', '#5a2a12', '#e69a1f', '#c7d2d6', '#7c1a2c'] as const;

/** Draws a drinking glass at the mouth: what is behind it shows through, shifted by the curved wall. */
export function drawGlass(scene: Scene): Occluded {
  const { head, light, seed, picture } = scene;
  const random = seeded(seed);
  const wobble = (by: number): number => by * (2 * random() - 1);
  const grid = gridOf(picture, scene.face, head);
  const layer = emptyLayer(grid);
  const radius = 0.25 + wobble(0.03);
  const height = 0.9 + wobble(0.08);
  const down = unit([wobble(0.15), 1, -0.25 + wobble(0.12)]);
  const top = add(mix(head.point(0), head.point(13), 0.3), [wobble(0.04), 0, -radius - 0.02]);
  const code = DRINKS[Math.floor(DRINKS.length * random())];
  const drink = code && tint(hex(code), light.white);
  const surface = 0.3 + 0.25 * random();
  const [ax, ay] = onGrid(grid, head, top);
  const [bx, by] = onGrid(grid, head, add(top, scale(down, height)));
  const length = Math.hypot(bx - ax, by - ay);
  const [dx, dy] = [(bx - ax) / length, (by - ay) / length];
  const wide = (radius * head.width) / grid.step;
  const flat = 0.2;
  for (let i = 0; i < layer.alpha.length; i++) {
    const [px, py] = [(i % grid.width) + 0.5 - ax, Math.floor(i / grid.width) + 0.5 - ay];
    const t = (px * dx + py * dy) / length;
    const half = wide * (1 - 0.2 * Math.min(1, Math.max(0, t)));
    const s = (dx * py - dy * px) / half;
    const bulge = Math.sqrt(Math.max(0, 1 - s * s)) * ((flat * half) / length);
    if (Math.abs(s) > 1 || t < -bulge || t > 1 + bulge) continue;
    const behind = seenThrough(
      scene,
      { x: px + ax + dy * s * half * 0.25, y: py + ay - dx * s * half * 0.25 },
      grid,
    );
    const filled = drink && t > surface - 0.5 * bulge;
    const n: Vec = [-s, 0, -Math.sqrt(Math.max(0, 1 - s * s))];
    const edge = Math.abs(s) ** 6;
    let colour = tint(behind, 0.94);
    let alpha = 0.45 + 0.5 * edge;
    if (filled) {
      const deep = 0.55 + 0.4 * Math.sqrt(1 - s * s);
      colour = blend(colour, tint(tint(drink, light.on(n)), 0.55 + 0.5 * (1 - edge)), deep);
      alpha = 1;
      const meniscus = Math.abs(t - surface + bulge) * length < 1.6 * (grid.width / 400);
      if (meniscus) colour = blend(colour, light.white, 0.3);
    }
    const bottom = smoothstep(0.93, 0.97, t);
    colour = blend(colour, tint(light.white, 0.55), 0.5 * bottom);
    alpha = Math.max(alpha, bottom);
    colour = tint(colour, 1 - 0.4 * edge);
    const gleam = Math.exp(-(((s + 0.62) / 0.07) ** 2)) + 0.5 * Math.exp(-(((s - 0.75) / 0.05) ** 2));
    const streak =
      gleam *
      smoothstep(0.03, 0.1, t) *
      (1 - smoothstep(0.75, 0.92, t)) *
      (0.8 + 0.2 * noise(t * 6, s, 0, seed));
    colour = blend(colour, light.white, 0.65 * Math.min(1, streak));
    const rim = Math.abs(Math.abs(t) - bulge) * length;
    if (t < bulge && rim < 0.02 * wide * 2) {
      colour = blend(colour, tint(light.white, 0.95), t > 0 ? 0.6 : 0.4);
      alpha = Math.max(alpha, 0.8);
    }
    cover(layer, i, colour, Math.min(1, Math.max(alpha, 0.6 * streak)));
  }
  const hand = emptyLayer(grid);
  const grip = {
    at: add(top, scale(down, 0.82 * height)),
    along: scale(down, -1),
    radius: radius * 0.9,
    side: (random() < 0.5 ? 1 : -1) as 1 | -1,
  };
  drawSolids(hand, head, handGrip(scene, grip));
  stack(layer, hand);
  layer.gap = 0.1;
  layer.shade = 0.25;
  return composite(scene, layer);
}

/** Returns the light of the picture at a place of the grid. */
function seenThrough(
  { picture }: Scene,
  at: { x: number; y: number },
  grid: { left: number; top: number; step: number },
): Rgb {
  const x = Math.min(picture.width - 1, Math.max(0, Math.floor(grid.left + at.x * grid.step)));
  const y = Math.min(picture.height - 1, Math.max(0, Math.floor(grid.top + at.y * grid.step)));
  const i = (y * picture.width + x) * 3;
  return [0, 1, 2].map((c) => linear(picture.data[i + c] as number)) as unknown as Rgb;
}
