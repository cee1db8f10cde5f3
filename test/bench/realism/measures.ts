import type { Picture } from '@semblance/engine-api/picture';
import { apertures, landmarkDrift, seamExcess } from '@semblance/testkit/quality/measures';
import type { Face } from '@semblance/vision/face-mesh';
import {
  FACE_OVAL,
  LEFT_BROW,
  LEFT_EYE,
  LIPS_INNER,
  LIPS_OUTER,
  RIGHT_BROW,
  RIGHT_EYE,
} from '@semblance/vision/face-regions';
import { fillPolygon, grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { lab, linear } from './cases/colour.ts';

/** Skin that no feature reaches: both cheeks and both sides of the jaw. */
export const CHEEKS = [
  [50, 205, 187, 123, 117],
  [280, 425, 411, 352, 346],
] as const;
/** Skin on and beside the features, where patches of another complexion show. */
const BESIDE = {
  nose: [[6, 197, 195, 5, 4, 45, 51, 3, 196, 122, 351, 419, 248, 281, 275]],
  'upper lip': [[98, 2, 327, 391, 393, 164, 167, 165]],
  chin: [[83, 18, 313, 421, 200, 201]],
  'under the eyes': [
    [230, 229, 119, 118, 101, 100],
    [450, 449, 348, 347, 330, 329],
  ],
  'between the brows': [[107, 9, 336, 285, 8, 55]],
} as const;
const FEATURES = [RIGHT_EYE, LEFT_EYE, RIGHT_BROW, LEFT_BROW, LIPS_OUTER];

/** What is measured of one swap. Lab distances are CIE 1976. */
export interface Measures {
  /** Lab distance of the cheeks' mean colour, before and after. */
  readonly tone: number;
  /** Largest Lab distance by which skin beside a feature changed against the cheeks, and where. */
  readonly patch: number;
  readonly patchAt: string;
  /** Ratio of the cheeks' fine texture, after to before. */
  readonly texture: number;
  /** Ratio of edges on eyes, brows and lips, after to before. */
  readonly sharpness: number;
  /** Gradient that the border of the changed area adds, in levels per pixel. */
  readonly seam: number;
  /** Move of the outline in % of the eye distance; change of the mouth's and the eyes' opening as shares of it. */
  readonly drift: number;
  readonly mouth: number;
  readonly eyes: number;
  /** Ratio of the area of teeth, after to before; undefined where the target shows none. */
  readonly teeth: number | undefined;
  /**
   * Rise of the distance between the mesh and the landmarks of a detector that the engine does not use, in % of the
   * face's width.
   */
  readonly landmarks: number;
  /** Share of the pixels of an object in front that stay; undefined without one. */
  readonly kept: number | undefined;
  /** Share of the face that an object in front of the source stains; undefined without one. */
  readonly stained: number | undefined;
}

/** A case is good within these limits. */
export const FLOORS: { readonly [key in Exclude<keyof Measures, 'patchAt'>]: readonly [number, number] } = {
  tone: [0, 6],
  patch: [0, 14],
  texture: [0.6, 1.7],
  sharpness: [0.4, 2],
  // Of 90 swaps looked at, none below it shows a seam; a step of a fifth of the light is above it.
  seam: [0, 3.5],
  drift: [0, 6],
  mouth: [0, 0.09],
  eyes: [0, 0.07],
  teeth: [0.6, 1.6],
  landmarks: [0, 2],
  kept: [0.9, 1],
  stained: [0, 0.03],
};

/** Difference of brightness up to which a pixel of an object counts as kept. */
const KEPT = 14;
/** Least area of teeth that is compared, in squared face widths. */
export const TEETH = 0.004;
/** How much less red than lips teeth are at least, Lab. Pale lips are no redder than cheeks. */
const PALER = 3;
/** Width by which the mouth is larger than its mesh, as a share of the face width. */
const BEYOND_MESH = 0.02;
/** Difference of a channel from which a pixel counts as stained. */
const STAIN = 24;

/** What is known about a case besides its pictures. */
export interface Known {
  /** Distances between mesh and landmarks, before and after. */
  readonly landmarks: readonly [number, number];
  /** Share of each pixel that an object in front of the target covers. */
  readonly occluder?: Plane | undefined;
  /** The same swap by a source without the object that is in front of it. */
  readonly bare?: Picture | undefined;
}

/** @param faces as they are found in the target and in the result */
export function measure(
  pictures: { readonly before: Picture; readonly after: Picture },
  faces: { readonly before: Face; readonly after: Face },
  { landmarks, occluder, bare }: Known,
): Measures {
  const { before, after } = pictures;
  const face = faces.before;
  const free = (mask: Plane): Plane => (occluder ? without(mask, occluder) : mask);
  const cheeks = free(areaOf(before, face, CHEEKS));
  const [ownCheeks, newCheeks] = [meanLab(before, cheeks), meanLab(after, cheeks)];
  let [patch, patchAt] = [0, ''];
  for (const [name, groups] of Object.entries(BESIDE)) {
    const mask = free(areaOf(before, face, groups));
    const own = minus(meanLab(before, mask), ownCheeks);
    const now = minus(meanLab(after, mask), newCheeks);
    const change = Math.hypot(...minus(now, own));
    if (change > patch) [patch, patchAt] = [change, name];
  }
  const features = free(areaOf(before, face, FEATURES));
  const [a, b] = [apertures(faces.before), apertures(faces.after)];
  return {
    tone: Math.hypot(...minus(newCheeks, ownCheeks)),
    patch,
    patchAt,
    texture: edges(after, cheeks) / edges(before, cheeks),
    sharpness: edges(after, features) / edges(before, features),
    seam: seamExcess(before, after, face, notSkin(pictures, faces, occluder)),
    drift: landmarkDrift(faces.before, faces.after),
    mouth: Math.abs(a.mouth - b.mouth),
    eyes: Math.abs(a.eyes - b.eyes),
    teeth: teethRatio(pictures, faces, occluder),
    landmarks: Math.max(0, landmarks[1] - landmarks[0]),
    kept: occluder ? keptShare(before, after, occluder) : undefined,
    stained: bare ? stainedShare(before, after, bare, face) : undefined,
  };
}

/** Distance from a feature up to which edges are those of the feature, as a share of the face width. */
const BESIDE_FEATURE = 0.05;

/**
 * Returns 1 on the features of both faces and on what is in front. Brows close to a fringe, or lips beside a beard
 * that stays, would be taken for a seam.
 */
function notSkin(
  pictures: { readonly before: Picture; readonly after: Picture },
  faces: { readonly before: Face; readonly after: Face },
  occluder: Plane | undefined,
): Plane {
  const features = areaOf(pictures.before, faces.before, FEATURES);
  const moved = areaOf(pictures.after, faces.after, FEATURES);
  for (let i = 0; i < features.data.length; i++)
    features.data[i] = Math.max(features.data[i] as number, moved.data[i] as number);
  const out = grow(features, BESIDE_FEATURE * faces.before.width);
  for (let i = 0; occluder && i < out.data.length; i++)
    out.data[i] = Math.max(out.data[i] as number, occluder.data[i] as number);
  return out;
}

/** Returns the names of the measures outside their limits, worst first, with how far each is outside. */
export function failures(measures: Measures): { readonly name: keyof typeof FLOORS; readonly by: number }[] {
  return (Object.keys(FLOORS) as (keyof typeof FLOORS)[])
    .flatMap((name) => {
      const value = measures[name];
      if (value === undefined) return [];
      const [low, high] = FLOORS[name];
      const by = value > high ? value / high - 1 : value < low ? low / Math.max(value, 1e-3) - 1 : 0;
      return by > 0 ? [{ name, by }] : [];
    })
    .toSorted((x, y) => y.by - x.by);
}

export function areaOf(picture: Picture, { points }: Face, groups: readonly (readonly number[])[]): Plane {
  const mask = plane(picture.width, picture.height);
  for (const group of groups)
    fillPolygon(
      mask,
      group.flatMap((i) => [points[i * 3] as number, points[i * 3 + 1] as number]),
    );
  return mask;
}

function without(mask: Plane, occluder: Plane): Plane {
  const out = plane(mask.width, mask.height);
  for (let i = 0; i < out.data.length; i++)
    out.data[i] = (occluder.data[i] as number) > 0.02 ? 0 : (mask.data[i] as number);
  return out;
}

export function meanLab(picture: Picture, mask: Plane): number[] {
  const sum = [0, 0, 0];
  let count = 0;
  for (let i = 0; i < mask.data.length; i++) {
    if (!mask.data[i]) continue;
    for (let c = 0; c < 3; c++) sum[c] = (sum[c] as number) + linear(picture.data[i * 3 + c] as number);
    count++;
  }
  return lab(sum.map((v) => v / Math.max(1, count)));
}

const minus = (a: readonly number[], b: readonly number[]): number[] => a.map((v, i) => v - (b[i] as number));

/** Returns the mean Laplacian of green in an area, plus the noise of rounding. */
export function edges({ width, height, data }: Picture, mask: Plane): number {
  let [sum, count] = [0, 0];
  const at = (i: number): number => data[i * 3 + 1] as number;
  for (let i = width; i < mask.data.length - width; i++) {
    const x = i % width;
    if (!mask.data[i] || x === 0 || x === width - 1 || i >= width * (height - 1)) continue;
    sum += Math.abs(4 * at(i) - at(i - 1) - at(i + 1) - at(i - width) - at(i + width));
    count++;
  }
  return sum / Math.max(1, count) + 1;
}

function teethRatio(
  { before, after }: { readonly before: Picture; readonly after: Picture },
  faces: { readonly before: Face; readonly after: Face },
  occluder: Plane | undefined,
): number | undefined {
  const own = teethArea(before, faces.before, occluder);
  // A line of a few pixels between lips says nothing.
  return own > TEETH ? teethArea(after, faces.after, occluder) / own : undefined;
}

/**
 * Returns the area of pixels between the lips that are as light as teeth and clearly less red than the lips, in
 * squared face widths.
 */
export function teethArea(picture: Picture, face: Face, occluder?: Plane): number {
  const [lightest = 0, reddest = 0] = meanLab(picture, areaOf(picture, face, CHEEKS));
  // The mesh often runs through the teeth.
  const within = grow(areaOf(picture, face, [LIPS_INNER]), BEYOND_MESH * face.width);
  const mouth = occluder ? without(within, occluder) : within;
  const [, lips = 0] = meanLab(picture, without(areaOf(picture, face, [LIPS_OUTER]), within));
  const most = Math.min(0.8 * reddest + 2, lips - PALER);
  let count = 0;
  for (let i = 0; i < mouth.data.length; i++) {
    if (!mouth.data[i]) continue;
    const [l, a] = lab([0, 1, 2].map((c) => linear(picture.data[i * 3 + c] as number)));
    if (l > 0.75 * lightest && a < most) count++;
  }
  return count / face.width ** 2;
}

/** Returns the share of the face that is like neither the target nor the swap of a bare source, nor between. */
function stainedShare(before: Picture, after: Picture, bare: Picture, face: Face): number {
  const mask = areaOf(before, face, [FACE_OVAL]);
  let [stained, all] = [0, 0];
  for (let i = 0; i < mask.data.length; i++) {
    if (!mask.data[i]) continue;
    all++;
    let most = 0;
    for (let c = 0; c < 3; c++) {
      const [a, b] = [before.data[i * 3 + c] as number, bare.data[i * 3 + c] as number];
      const here = after.data[i * 3 + c] as number;
      most = Math.max(most, here - Math.max(a, b), Math.min(a, b) - here);
    }
    if (most > STAIN) stained++;
  }
  return stained / Math.max(1, all);
}

const REGIONS: Readonly<Record<string, readonly (readonly number[])[]>> = {
  cheeks: CHEEKS,
  ...BESIDE,
  eyes: [RIGHT_EYE, LEFT_EYE],
  brows: [RIGHT_BROW, LEFT_BROW],
  lips: [LIPS_OUTER],
};
export const REGION_NAMES = Object.keys(REGIONS);

/** Returns the mean Lab colours of cheeks, skin beside features, eyes, brows and lips: the REGION_NAMES. */
export function regionColours(picture: Picture, face: Face): number[][] {
  return Object.values(REGIONS).map((groups) => meanLab(picture, areaOf(picture, face, groups)));
}

function keptShare(before: Picture, after: Picture, occluder: Plane): number {
  let [kept, all] = [0, 0];
  for (let i = 0; i < occluder.data.length; i++) {
    if ((occluder.data[i] as number) < 0.95) continue;
    all++;
    let change = 0;
    for (let c = 0; c < 3; c++)
      change = Math.max(
        change,
        Math.abs((before.data[i * 3 + c] as number) - (after.data[i * 3 + c] as number)),
      );
    if (change <= KEPT) kept++;
  }
  return all > 0 ? kept / all : 1;
}
