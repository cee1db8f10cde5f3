import { join } from 'node:path';
import { BODY, BODY_POINTS, type BodyPoint, type Person } from '@semblance/vision/person';
import sharp from 'sharp';

const MEDIA = join(import.meta.dirname, '..', '..', '..', '..', 'media');

/** Joint positions of a figure: x to the right, y down, in heights of the figure, from its feet. */
export interface Stance {
  /** Position of the middle of the feet and height of the figure, in pixels. */
  readonly x: number;
  readonly y: number;
  readonly height: number;
  /** Angles outwards from hanging straight down, in radians: upper and lower arm, the figure's left arm first. */
  readonly arms: readonly [number, number, number, number];
  /** The same angles for thighs and calves. */
  readonly legs: readonly [number, number, number, number];
  /** Clockwise turn of the head, in radians. */
  readonly head: number;
  /** Length added to the neck, in heights of the figure. */
  readonly longer?: number;
}

type Rgb = readonly [number, number, number];
type Point = readonly [number, number];

/** Clothes of a figure. */
export interface Dress {
  readonly shirt: Rgb;
  readonly trousers: Rgb;
  readonly skin: Rgb;
  readonly shoes: Rgb;
  /** Colour of hair that hangs beside the neck; undefined: none does. */
  readonly longHair?: Rgb;
}

export const BLUE_SHIRT: Dress = {
  shirt: [58, 92, 150],
  trousers: [52, 48, 46],
  skin: [214, 164, 138],
  shoes: [40, 26, 20],
};
export const RED_SHIRT: Dress = {
  shirt: [176, 44, 40],
  trousers: [196, 178, 140],
  skin: [205, 158, 132],
  shoes: [230, 230, 226],
};

/** Stance of an upright person with the arms a little away from the body, as most character pictures show. */
export const STANDING: Omit<Stance, 'x' | 'y' | 'height'> = {
  arms: [0.3, 0.25, 0.3, 0.25],
  legs: [0.1, 0.08, 0.1, 0.08],
  head: 0,
};

/** Photographed head for a figure. */
export interface Head {
  readonly side: number;
  /** RGBA. */
  readonly data: Uint8Array;
}

/** Loads the head of one of two shipped portraits, cut out by an ellipse. */
export async function loadHead(name: 'astronaut' | 'hopper'): Promise<Head> {
  const [file, left, top, size] =
    name === 'astronaut'
      ? (['astronaut.png', 137, 2, 178] as const)
      : (['grace_hopper.jpg', 100, 22, 320] as const);
  const side = 256;
  const data = await sharp(join(MEDIA, file))
    .extract({ left, top, width: size, height: size })
    .resize(side, side)
    .ensureAlpha()
    .raw()
    .toBuffer();
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      const r = Math.hypot(((x + 0.5) / side - 0.5) / 0.37, ((y + 0.5) / side - 0.5) / 0.48);
      data[(y * side + x) * 4 + 3] = 255 * Math.min(1, Math.max(0, (1 - r) / 0.05));
    }
  }
  return { side, data: new Uint8Array(data) };
}

/** Pixels of a figure without background: RGB, and the coverage of each pixel (0–255). */
export interface Drawn {
  readonly rgb: Uint8Array;
  readonly mask: Uint8Array;
}

/** Returns the joints of a figure in pixels, numbered as a body tracker numbers them. */
export function figurePoints(stance: Stance): BodyPoint[] {
  const { x, y, height, arms, legs, head, longer = 0 } = stance;
  const at = (u: number, v: number): Point => [x + u * height, y - v * height];
  const go = ([px, py]: Point, angle: number, length: number, side: number): Point => [
    px + side * Math.sin(angle) * length * height,
    py + Math.cos(angle) * length * height,
  ];
  const points = new Map<number, Point>();
  const set = (name: keyof typeof BODY, point: Point): Point => {
    points.set(BODY[name], point);
    return point;
  };
  // Seen from the front, the figure's left side is on the right.
  for (const [side, name, k] of [
    [1, 'left', 0],
    [-1, 'right', 1],
  ] as const) {
    const shoulder = set(`${name}Shoulder`, at(side * 0.115, 0.815));
    const elbow = set(`${name}Elbow`, go(shoulder, arms[k * 2] as number, 0.17, side));
    const wrist = set(`${name}Wrist`, go(elbow, arms[k * 2 + 1] as number, 0.15, side));
    for (const finger of ['Pinky', 'Index', 'Thumb'] as const) {
      set(`${name}${finger}`, go(wrist, arms[k * 2 + 1] as number, 0.05, side));
    }
    const hip = set(`${name}Hip`, at(side * 0.06, 0.5));
    const knee = set(`${name}Knee`, go(hip, legs[k * 2] as number, 0.235, side));
    const ankle = set(`${name}Ankle`, go(knee, legs[k * 2 + 1] as number, 0.225, side));
    set(`${name}Heel`, [ankle[0], ankle[1] + 0.015 * height]);
    set(`${name}FootIndex`, [ankle[0] + side * 0.025 * height, ankle[1] + 0.035 * height]);
  }
  const neck = at(0, 0.84 + longer);
  const face = (u: number, v: number): Point => {
    const [sin, cos] = [Math.sin(head), Math.cos(head)];
    const [a, b] = [u * height, -v * height];
    return [neck[0] + cos * a - sin * b, neck[1] + sin * a + cos * b];
  };
  set('nose', face(0, 0.07));
  for (const [side, name] of [
    [1, 'left'],
    [-1, 'right'],
  ] as const) {
    set(`${name}Eye`, face(side * 0.017, 0.092));
    set(`${name}EyeInner`, face(side * 0.011, 0.092));
    set(`${name}EyeOuter`, face(side * 0.023, 0.092));
    set(`${name}Ear`, face(side * 0.036, 0.08));
  }
  set('mouthLeft', face(0.012, 0.045));
  set('mouthRight', face(-0.012, 0.045));
  return Array.from({ length: BODY_POINTS }, (_, i) => {
    const [px, py] = points.get(i) as Point;
    return { x: px, y: py, z: 0, visibility: 1, presence: 1 };
  });
}

/** Draws a figure over a picture. */
export function drawFigure(
  width: number,
  height: number,
  stance: Stance,
  look: { readonly dress: Dress; readonly head: Head },
  background: Uint8Array,
): Drawn {
  const rgb = background.slice();
  const mask = new Uint8Array(width * height);
  const p = figurePoints(stance).map(({ x, y }): Point => [x, y]);
  const { height: h, longer = 0 } = stance;
  const { dress, head } = look;
  const at = (name: keyof typeof BODY): Point => p[BODY[name]] as Point;
  const between = (a: Point, b: Point, t = 0.5): Point => [
    a[0] + (b[0] - a[0]) * t,
    a[1] + (b[1] - a[1]) * t,
  ];
  const put = (x: number, y: number, cover: number, colour: Rgb): void => {
    const i = y * width + x;
    for (let c = 0; c < 3; c++) {
      const under = rgb[i * 3 + c] as number;
      rgb[i * 3 + c] = under + (Math.min(255, colour[c] as number) - under) * cover;
    }
    mask[i] = (mask[i] as number) + (255 - (mask[i] as number)) * cover;
  };
  /** Draws a limb whose radius changes from `ra` to `rb`, lit from the left. */
  const limb = (a: Point, b: Point, ra: number, rb: number, colour: Rgb): void => {
    const reach = Math.max(ra, rb) * h + 2;
    const length = Math.max(1e-6, (b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2);
    for (
      let y = Math.max(0, Math.floor(Math.min(a[1], b[1]) - reach));
      y < Math.min(height, Math.max(a[1], b[1]) + reach);
      y++
    ) {
      for (
        let x = Math.max(0, Math.floor(Math.min(a[0], b[0]) - reach));
        x < Math.min(width, Math.max(a[0], b[0]) + reach);
        x++
      ) {
        const dx = x + 0.5 - a[0];
        const dy = y + 0.5 - a[1];
        const t = Math.min(1, Math.max(0, (dx * (b[0] - a[0]) + dy * (b[1] - a[1])) / length));
        const ex = dx - t * (b[0] - a[0]);
        const ey = dy - t * (b[1] - a[1]);
        const r = (ra + (rb - ra) * t) * h;
        const cover = Math.min(1, Math.max(0, r - Math.hypot(ex, ey) + 0.5));
        if (cover === 0) continue;
        const weave = 4 * Math.sin(0.9 * (dx + dy)) * Math.sin(0.7 * (dx - dy));
        const light = 0.82 - 0.25 * (ex / r) - 0.08 * (ey / r);
        put(x, y, cover, [colour[0] * light + weave, colour[1] * light + weave, colour[2] * light + weave]);
      }
    }
  };
  for (const side of ['left', 'right'] as const) {
    limb(at(`${side}Heel`), at(`${side}FootIndex`), 0.02, 0.017, dress.shoes);
    limb(at(`${side}Hip`), at(`${side}Knee`), 0.055, 0.042, dress.trousers);
    limb(at(`${side}Knee`), at(`${side}Ankle`), 0.042, 0.026, dress.trousers);
  }
  const hips = between(at('leftHip'), at('rightHip'));
  const chest = between(at('leftShoulder'), at('rightShoulder'));
  limb(at('leftHip'), at('rightHip'), 0.055, 0.055, dress.trousers);
  limb(between(chest, hips, 0.95), between(chest, hips, 0.5), 0.1, 0.098, dress.shirt);
  limb(between(chest, hips, 0.5), between(chest, hips, 0.22), 0.098, 0.115, dress.shirt);
  limb(
    between(at('leftShoulder'), chest, 0.15),
    between(at('rightShoulder'), chest, 0.15),
    0.045,
    0.045,
    dress.shirt,
  );
  limb(chest, [chest[0], chest[1] - (0.05 + longer) * h], 0.034, 0.032, dress.skin);
  for (const side of ['left', 'right'] as const) {
    limb(at(`${side}Elbow`), at(`${side}Wrist`), 0.028, 0.02, dress.skin);
    limb(at(`${side}Shoulder`), at(`${side}Elbow`), 0.042, 0.034, dress.shirt);
    limb(at(`${side}Wrist`), at(`${side}Index`), 0.021, 0.018, dress.skin);
  }
  if (dress.longHair) {
    for (const [side, out] of [
      ['left', 1],
      ['right', -1],
    ] as const) {
      const [ear, end] = [at(`${side}Ear`), [chest[0] + out * 0.065 * h, chest[1] + 0.04 * h] as const];
      limb(ear, end, 0.03, 0.025, dress.longHair);
    }
  }
  // The head is 0.15 of the height.
  const size = 0.2 * h;
  const [sin, cos] = [Math.sin(stance.head), Math.cos(stance.head)];
  const middle: Point = [chest[0] + sin * 0.098 * h, chest[1] - (0.025 + longer) * h - cos * 0.075 * h];
  for (let y = Math.max(0, Math.floor(middle[1] - size)); y < Math.min(height, middle[1] + size); y++) {
    for (let x = Math.max(0, Math.floor(middle[0] - size)); x < Math.min(width, middle[0] + size); x++) {
      const dx = x + 0.5 - middle[0];
      const dy = y + 0.5 - middle[1];
      const u = ((cos * dx + sin * dy) / size + 0.5) * head.side - 0.5;
      const v = ((-sin * dx + cos * dy) / size + 0.5) * head.side - 0.5;
      if (u < 0 || v < 0 || u >= head.side - 1 || v >= head.side - 1) continue;
      const i = (v | 0) * head.side + (u | 0);
      const [fu, fv] = [u - (u | 0), v - (v | 0)];
      const value = (c: number): number => {
        const s = (k: number): number => head.data[(i + k) * 4 + c] as number;
        return (
          (s(0) * (1 - fu) + s(1) * fu) * (1 - fv) + (s(head.side) * (1 - fu) + s(head.side + 1) * fu) * fv
        );
      };
      const cover = value(3) / 255;
      if (cover > 0) put(x, y, cover, [value(0), value(1), value(2)]);
    }
  }
  return { rgb, mask };
}

/** Returns the person that a detector without errors would find. */
export function figurePerson(
  points: readonly BodyPoint[],
  mask: Uint8Array,
  width: number,
  height: number,
): Person {
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
  const size = 1.3 * Math.max(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys));
  const region = {
    x: (Math.max(...xs) + Math.min(...xs)) / 2,
    y: (Math.max(...ys) + Math.min(...ys)) / 2,
    size,
    angle: 0,
  };
  const side = 256;
  const data = new Uint8Array(side * side);
  for (let v = 0; v < side; v++) {
    for (let u = 0; u < side; u++) {
      const x = Math.floor(region.x + ((u + 0.5) / side - 0.5) * size);
      const y = Math.floor(region.y + ((v + 0.5) / side - 0.5) * size);
      if (x < 0 || y < 0 || x >= width || y >= height) continue;
      data[v * side + u] = mask[y * width + x] as number;
    }
  }
  return { score: 1, points, mask: { data, side, region }, next: region };
}
