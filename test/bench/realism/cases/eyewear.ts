import { seeded } from '@semblance/testkit/sound/random';
import { smoothstep } from '@semblance/vision/plane/plane';
import { blend, hex, type Rgb, tint } from './colour.ts';
import { composite, type Occluded, type Scene } from './composite.ts';
import { add, cross, dot, mix, scale, sub, unit, type Vec } from './head-frame.ts';
import { cover, emptyLayer, gridOf, type Layer, onGrid, samplePlace } from './layer.ts';
import { drawStroke } from './strokes.ts';
import { faceDepth } from './surface.ts';

interface Style {
  readonly halfWidth: number;
  readonly halfHeight: number;
  /** 2 is an ellipse; larger is squarer. */
  readonly square: number;
  /** Half width of the rim, in face widths. */
  readonly rim: number;
  /** Whether the lower half of the lenses has no rim. */
  readonly half: boolean;
  readonly colour: Rgb;
  /** Distance of a lens's middle from the nose. */
  readonly aside: number;
  readonly drop: number;
}

const FRAMES = ['#121314', '#161312', '#2e1c12', '#4a2d1a', '#1a2338', '#3f1720', '#7d8188', '#8f7338'];

/** Draws glasses: dark ones that hide the eyes, or clear ones with a whole frame or one over the lenses only. */
export function drawGlasses(scene: Scene, kind: 'dark' | 'clear' | 'half-rim'): Occluded {
  const dark = kind === 'dark';
  const { head, light, seed } = scene;
  const random = seeded(seed);
  const within = (low: number, high: number): number => low + (high - low) * random();
  const thin = !dark && random() < 0.35;
  const halfWidth = dark ? within(0.19, 0.225) : within(0.165, 0.2);
  const style: Style = {
    halfWidth,
    halfHeight: halfWidth * (dark ? within(0.64, 0.82) : within(0.66, 0.9)),
    square: within(2.2, 3.3),
    half: kind === 'half-rim',
    rim: thin ? 0.007 : within(0.01, 0.018),
    colour: tint(hex(FRAMES[Math.floor((dark ? 6 : FRAMES.length) * random())] as string), light.white),
    aside: 0,
    drop: within(-0.01, 0.025),
  };
  const pupils = [159, 145, 386, 374].map((index) => head.point(index));
  const right = mix(pupils[0] as Vec, pupils[1] as Vec, 0.5);
  const left = mix(pupils[2] as Vec, pupils[3] as Vec, 0.5);
  const middle = mix(right, left, 0.5);
  const apart = Math.max(0.5 * (left[0] - right[0]) + 0.012, style.halfWidth + 0.045);
  const layer = emptyLayer(gridOf(scene.picture, scene.face, head));
  const brow = Math.min(right[2], left[2], head.point(6)[2]);
  const front: Front = { middle, apart, z: brow - 0.045, wrap: dark ? 0.5 : 0.35 };
  drawTemples(layer, scene, front, style);
  drawFront(layer, scene, front, style, dark ? lensOf(scene, random) : undefined);
  layer.gap = 0.035;
  layer.shade = dark ? 0.4 : 0.3;
  return composite(scene, layer);
}

interface Front {
  readonly middle: Vec;
  /** Half the distance between the middles of the lenses. */
  readonly apart: number;
  readonly z: number;
  /** Bend of the front around the face. */
  readonly wrap: number;
}

/** Returns the colour of a dark lens by the place in it: the sky is mirrored in its upper part, and a lamp. */
function lensOf(scene: Scene, random: () => number): (x: number, y: number) => Rgb {
  const { light } = scene;
  const code = ['#0b0c0d', '#1a120b', '#0d1511', '#10121c'][Math.floor(4 * random())] as string;
  const glass = tint(hex(code), light.white);
  const sky = 0.02 + 0.09 * random();
  const [lampX, lampY] = [0.5 * Math.sign(light.towards[0]), -0.55 + 0.2 * random()];
  return (x, y) => {
    const mirrored = sky * (1 - smoothstep(-0.7, 0.25, y + 0.18 * x * x));
    const lamp = 0.12 * Math.exp(-(((x - lampX) / 0.1) ** 2) - ((y - lampY + 0.15 * x) / 0.05) ** 2);
    return add(tint(glass, 1 + 0.9 * smoothstep(-0.2, 1, y)), scale(light.white, mirrored + lamp));
  };
}

/** Returns the signed distance from the outline of a rounded lens, nearly in face widths close to the outline. */
function lensDistance(x: number, y: number, { halfWidth, halfHeight, square }: Style): number {
  const share = (u: number, v: number): number => {
    // The outer side is a little lower than the inner one, as in most frames.
    const h = halfHeight * (1 - 0.08 * (u / halfWidth));
    return (Math.abs(u / halfWidth) ** square + Math.abs(v / h) ** square) ** (1 / square);
  };
  const step = 0.001;
  const r = share(x, y);
  const slope = Math.hypot(share(x + step, y) - r, share(x, y + step) - r) / step;
  return (r - 1) / Math.max(2, slope);
}

function drawFront(
  layer: Layer,
  scene: Scene,
  front: Front,
  style: Style,
  lens?: (x: number, y: number) => Rgb,
): void {
  const { head, light } = scene;
  const { grid } = layer;
  const away = head.directionToHead([0, 0, 1]);
  const sample = grid.step / head.width;
  for (let i = 0; i < layer.alpha.length; i++) {
    const [px, py] = samplePlace(grid, i % grid.width, Math.floor(i / grid.width));
    const from = head.toHead([px, py, 0]);
    // The front is a bent sheet: a few rounds find where the ray meets it.
    let at: Vec = from;
    for (let round = 0; round < 4; round++) {
      const bent = front.z + front.wrap * (at[0] - front.middle[0]) ** 2;
      at = add(from, scale(away, (bent - from[2]) / Math.max(0.3, away[2])));
    }
    const x = at[0] - front.middle[0];
    const y = at[1] - front.middle[1] - style.drop;
    if (Math.abs(x) > front.apart + style.halfWidth + 0.05 || Math.abs(y) > style.halfHeight + 0.05) continue;
    const own = Math.abs(x) - front.apart;
    const outline = lensDistance(own, y, style);
    const open = style.half && y > 0.1 * style.halfHeight;
    const thickness = style.rim * (1 + 0.35 * smoothstep(0.3, -1, y / style.halfHeight));
    const rim = open ? Infinity : Math.abs(outline) - thickness;
    // The bridge is an arch between the lenses.
    const arch = y + 0.35 * style.halfHeight - 0.6 * x * x;
    const bridge =
      own < -0.8 * style.halfWidth && outline > -style.rim ? Math.abs(arch) - 0.95 * style.rim : Infinity;
    const hinge =
      own > 0.85 * style.halfWidth
        ? Math.hypot(Math.max(0, own - style.halfWidth - 0.02), y + 0.5 * style.halfHeight) - 1.5 * style.rim
        : Infinity;
    const frame = Math.min(rim, bridge, hinge);
    if (outline < 0 && lens) {
      const inside = smoothstep(0, -sample, outline);
      cover(layer, i, lens((own / style.halfWidth) * Math.sign(x), y / style.halfHeight), inside);
    } else if (outline < 0) {
      const glare = Math.exp(-(((own * 0.8 + y * 1.1 + 0.06) / 0.035) ** 2)) * 0.16 + 0.03;
      cover(layer, i, light.white, glare * smoothstep(0, -0.04, outline));
    }
    if (frame < sample) {
      // The rim is flat with rounded edges; the upper edge catches the light.
      const round = Math.min(1, Math.max(-1, outline / style.rim));
      const up = round * Math.min(1, Math.max(-1, -y / (0.6 * style.halfHeight)));
      const n = unit([2 * front.wrap * x, -0.25 - 0.6 * up * round * round, -1]);
      const gleam = 0.02 + 0.16 * smoothstep(0.35, 0.75, up) * (1 - smoothstep(0.75, 1, up));
      const lit = add(tint(style.colour, light.on(n)), scale(light.white, gleam));
      cover(layer, i, lit, smoothstep(0.5 * sample, -0.5 * sample, frame));
    }
  }
}

/** Draws the arms from the front to the ears, where the head does not hide them. */
function drawTemples(layer: Layer, scene: Scene, front: Front, style: Style): void {
  const { head, light } = scene;
  const { grid } = layer;
  const depth = faceDepth(head, grid);
  for (const [sign, ear] of [
    [-1, 127],
    [1, 356],
  ] as const) {
    const x = sign * (front.apart + style.halfWidth + 0.015);
    const hinge: Vec = [
      front.middle[0] + x,
      front.middle[1] + style.drop - 0.5 * style.halfHeight,
      front.z + front.wrap * x * x,
    ];
    const [ex, , ez] = head.point(ear);
    const end: Vec = [ex * 1.04, hinge[1] + 0.02, Math.max(ez, hinge[2] + 0.2) + 0.25];
    const spots = Array.from({ length: 20 }, (_, k) => onGrid(grid, head, mix(hinge, end, k / 19)));
    const radius = (Math.max(0.011, 0.9 * style.rim) * head.width) / grid.step;
    const outward = cross(unit(sub(end, hinge)), [0, 1, 0]);
    const n = unit(add(scale(outward, dot(outward, [sign, 0, 0]) > 0 ? 1 : -1), [0, -0.3, -0.2]));
    const colour = blend(tint(style.colour, light.on(n)), light.white, 0.04);
    drawStroke(
      layer,
      spots.map(([px, py]) => ({ x: px, y: py, radius })),
      (along, _across, i) => {
        const z = (spots[Math.min(19, Math.round(along * 19))] as Vec)[2];
        return {
          colour,
          alpha: z > (depth[i] as number) + 0.03 * head.width ? 0 : 1 - smoothstep(0.75, 0.95, along),
        };
      },
    );
  }
}
