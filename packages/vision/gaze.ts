import type { CropSource } from './face-mesh.ts';
import { LEFT_EYE, RIGHT_EYE } from './face-regions.ts';
import { type CropTransform, squareCrop, toCrop } from './picture.ts';
import { fillPolygon, type Plane, plane, sample, smoothstep } from './plane/plane.ts';

/** Outlines of both eyes, and their corners from left to right in an unmirrored picture. */
export const EYES = [
  { outline: RIGHT_EYE, corners: [33, 133] },
  { outline: LEFT_EYE, corners: [362, 263] },
] as const;
/** Side of the crop in which an eye is searched, and the distance of its corners there, in pixels. */
const SIZE = 40;
const EYE_WIDTH = 32;
/** Radii of an iris, and the area in which its middle may lie, as shares of the distance of the corners. */
const RADII = [0.17, 0.195, 0.22] as const;
const ASIDE = 0.3;
const BELOW = 0.14;
/** Share of that area beyond which what was found may well be something else, such as the edge of an eye patch. */
const EXTREME = 0.85;
/** Steps of the search in pixels of the crop, the coarse one first; the finest is halved once more by a parabola. */
const STEPS = [2, 1, 0.5] as const;
/** Radii at which the rim of an iris is looked at, relative to its radius, and angles to either side, in radians. */
const INSIDE = 0.75;
const OUTSIDE = 1.3;
const ANGLES = [-0.6, -0.3, 0, 0.3, 0.6] as const;
/** Radii and directions in which a disc is looked at for its darkness. */
const DARK = [0, 0.4, 0.8].flatMap((share) =>
  Array.from({ length: share ? 6 : 1 }, (_, k) => {
    const angle = (k * Math.PI) / 3 + share;
    return [share * Math.cos(angle), share * Math.sin(angle)] as const;
  }),
);
/** Weight of that darkness beside the contrast at the rims. */
const DARKNESS = 0.7;
/**
 * Sums of the contrasts at both rims, relative to the eye's brightness, below which nothing is an iris but maybe a line of
 * lashes, and from which it surely is one.
 */
const SURE = [0.4, 0.7] as const;
/** The same sums below which an eye is shut, and from which it is not. */
const SHUT = [0.35, 0.5] as const;
/** Area between the lids, in squared distances of the corners, below which an eye is shut, and from which it is open. */
const OPEN = [0.1, 0.16] as const;
/** Distances of the corners, in pixels of the picture, below which an eye is too small to read, and from which not. */
const LARGE = [7, 12] as const;

/** Where two eyes look, as seen in the picture. */
export interface Gaze {
  /**
   * How far the middles of the irises lie to the right of the middles of the eyes' corners in the picture, as a share
   * of the distance of the corners.
   */
  readonly aside: number;
  /** How surely that is known, 0–1. */
  readonly sure: number;
  /** How surely the iris of the right and of the left eye was found, 0–1. */
  readonly seen: readonly [number, number];
  /** How surely they are shut: large enough to be read, but without an iris. */
  readonly shut: readonly [number, number];
}

/** Eyes of which nothing is known. */
export const UNKNOWN_GAZE: Gaze = { aside: 0, sure: 0, seen: [0, 0], shut: [0, 0] };

interface Iris {
  /** As of {@link Gaze}. */
  readonly aside: number;
  readonly seen: number;
  readonly shut: number;
}

const TOO_SMALL: Iris = { aside: 0, seen: 0, shut: 0 };

/**
 * Finds both irises by the contrast of their left and right rims to the white of the eye (the integro-differential
 * operator of Daugman 1993 without the arcs that lids cover) and by their darkness. Both eyes look in one direction,
 * so the result is their mean; that of one eye alone would be shifted towards the nose.
 * @param points mesh in pixels of the picture, stride 3
 */
export function gazeOf(source: CropSource, points: Float32Array): Gaze {
  const [right, left] = [irisOf(source, points, 0), irisOf(source, points, 1)];
  const aside = (right.aside + left.aside) / 2;
  const seen = [right.seen, left.seen] as const;
  return { aside, sure: Math.min(...seen), seen, shut: [right.shut, left.shut] };
}

function irisOf(source: CropSource, points: Float32Array, side: 0 | 1): Iris {
  const { outline, corners } = EYES[side];
  const [ax, ay, bx, by] = corners.flatMap((index) => [points[index * 3], points[index * 3 + 1]]) as [
    number,
    number,
    number,
    number,
  ];
  const width = Math.hypot(bx - ax, by - ay);
  const large = smoothstep(LARGE[0], LARGE[1], width);
  if (large === 0) return TOO_SMALL;
  const middle = { x: (ax + bx) / 2, y: (ay + by) / 2 };
  const crop = squareCrop(middle, (width * SIZE) / EYE_WIDTH, Math.atan2(by - ay, bx - ax), SIZE);
  const eye = eyeIn(source, crop, points, outline);
  if (!eye) return { aside: 0, seen: 0, shut: large };
  const best = search(eye);
  const [toRight, toLeft] = rimsOf(eye, best.x, best.y, best.radius);
  const contrast = smoothstep(SURE[0], SURE[1], toRight + toLeft);
  const aside = (best.x - SIZE / 2) / EYE_WIDTH;
  const wide = smoothstep(OPEN[0], OPEN[1], eye.area / EYE_WIDTH ** 2);
  const likely = 1 - smoothstep(EXTREME * ASIDE, ASIDE, Math.abs(aside));
  return {
    aside,
    seen: large * contrast * wide * likely,
    shut: large * (1 - smoothstep(SHUT[0], SHUT[1], toRight + toLeft)),
  };
}

interface Eye {
  readonly bright: Plane;
  /** 1 between the lids. */
  readonly opening: Plane;
  readonly area: number;
  /** Mean brightness there. */
  readonly level: number;
}

function eyeIn(
  source: CropSource,
  crop: CropTransform,
  points: Float32Array,
  outline: readonly number[],
): Eye | undefined {
  const pixels = source(crop, SIZE);
  const bright = plane(SIZE, SIZE);
  // Blue irises are nearly as bright as the white of the eye in blue.
  for (let i = 0; i < bright.data.length; i++)
    bright.data[i] = ((pixels[i * 3] as number) + (pixels[i * 3 + 1] as number)) / 2;
  const opening = plane(SIZE, SIZE);
  fillPolygon(
    opening,
    outline.flatMap((index) => {
      const { x, y } = toCrop(crop, points[index * 3] as number, points[index * 3 + 1] as number);
      return [x, y];
    }),
  );
  let [area, level] = [0, 0];
  for (let i = 0; i < opening.data.length; i++) {
    area += opening.data[i] as number;
    level += (opening.data[i] as number) * (bright.data[i] as number);
  }
  return area < 8 ? undefined : { bright, opening, area, level: level / area };
}

function search(eye: Eye): { x: number; y: number; radius: number; contrast: number } {
  let best = { x: SIZE / 2, y: SIZE / 2, radius: 0, contrast: -Infinity };
  for (const [round, step] of STEPS.entries()) {
    const [reachX, reachY] = round === 0 ? [ASIDE * EYE_WIDTH, BELOW * EYE_WIDTH] : [2 * step, 2 * step];
    const { x: startX, y: startY } = best;
    const radii = round === 0 ? RADII : [best.radius / EYE_WIDTH];
    for (let y = startY - reachY; y <= startY + reachY; y += step)
      for (let x = startX - reachX; x <= startX + reachX; x += step)
        for (const share of radii) {
          const radius = share * EYE_WIDTH;
          const contrast = contrastOf(eye, x, y, radius);
          if (contrast > best.contrast) best = { x, y, radius, contrast };
        }
  }
  const [before, after] = [-0.5, 0.5].map((d) => contrastOf(eye, best.x + d, best.y, best.radius)) as [
    number,
    number,
  ];
  const bend = before - 2 * best.contrast + after;
  const shift = bend < -1e-6 ? (0.25 * (before - after)) / bend : 0;
  return { ...best, x: best.x + Math.min(0.5, Math.max(-0.5, shift)) };
}

/** Returns how much a disc differs from what lies beside it and from the whole eye, relative to the eye's brightness. */
function contrastOf(eye: Eye, x: number, y: number, radius: number): number {
  const { bright, opening, level } = eye;
  let inside = 0;
  let count = 0.5;
  for (const [dx, dy] of DARK) {
    const [px, py] = [x + dx * radius, y + dy * radius];
    if (!at(opening, px, py)) continue;
    inside += at(bright, px, py);
    count++;
  }
  const [right, left] = rimsOf(eye, x, y, radius);
  return (right + left) / 2 + (DARKNESS * (level - inside / count)) / (level + 8);
}

/** Returns how much brighter than a disc the eye is beside it on both sides, relative to the eye's brightness. */
function rimsOf({ bright, opening, level }: Eye, x: number, y: number, radius: number): [number, number] {
  const rims: [number, number] = [0, 0];
  for (const side of [-1, 1] as const) {
    let [sum, weight] = [0, 0.5];
    for (const angle of ANGLES) {
      const [dx, dy] = [side * Math.cos(angle) * radius, Math.sin(angle) * radius];
      const [ix, iy] = [x + INSIDE * dx, y + INSIDE * dy];
      const [ox, oy] = [x + OUTSIDE * dx, y + OUTSIDE * dy];
      if (!at(opening, ix, iy) || !at(opening, ox, oy)) continue;
      sum += sample(bright, ox, oy) - sample(bright, ix, iy);
      weight++;
    }
    rims[side < 0 ? 0 : 1] = sum / weight / (level + 8);
  }
  return rims;
}

function at({ width, height, data }: Plane, x: number, y: number): number {
  return x >= 0 && y >= 0 && x < width && y < height ? (data[(y | 0) * width + (x | 0)] as number) : 0;
}
