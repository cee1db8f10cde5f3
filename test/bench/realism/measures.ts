import type { Picture } from '@semblance/engine-api/picture';
import { apertures, landmarkDrift, seamExcess } from '@semblance/testkit/quality/measures';
import type { Face } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LIPS_INNER, LIPS_OUTER, NOSE_BASE } from '@semblance/vision/face-regions';
import { grow, type Plane } from '@semblance/vision/plane/plane';
import { lab, linear } from './cases/colour.ts';
import { areaOf, BESIDE, CHEEKS, edges, FEATURES, hides, meanLab, shareLeft, without } from './face-areas.ts';

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
/** Share of skin beside a feature that must be seen beside an object in front. */
const LEAST_SEEN = 0.25;
/** Least area of teeth that is compared, in squared face widths. */
export const TEETH = 0.004;
/** Share of the opening that must be seen. */
const MOUTH_SEEN = 0.5;
/** How much less red than lips teeth are at least, Lab. Pale lips are no redder than cheeks. */
const PALER = 3;
/** Width by which the mouth is larger than its mesh, as a share of the face width. */
const BEYOND_MESH = 0.02;
/** Difference of a channel from which a pixel counts as stained. */
const STAIN = 24;
/** Distance by which features of two swaps may lie apart, in face widths. */
const ASIDE = 0.015;

/** What is known about a case besides its pictures. */
export interface Known {
  /** Distances between mesh and landmarks, before and after. */
  readonly landmarks: readonly [number, number];
  /** Share of each pixel that an object in front of the target covers. */
  readonly occluder?: Plane | undefined;
  /** The same swap by a source without the object that is in front of it, with the target's own jaw. */
  readonly bare?: Picture | undefined;
  /** Share of fine texture that encoding the result leaves where nothing was drawn; undefined: it is not encoded. */
  readonly encoded?: number | undefined;
}

/** The target before and after a swap. */
export interface Pictures {
  readonly before: Picture;
  readonly after: Picture;
  /** The target whose features and jaw have moved as in the result, and no more; undefined: nothing has moved. */
  readonly moved?: Picture;
  /** The result without that move. */
  readonly still?: Picture;
  /** Share of the new face in each pixel of the result; undefined: pixels that differ are those of the swap. */
  readonly drawn?: Plane;
}

/** Meshes of the faces of a swap. */
export interface Faces {
  /** As they are found in the target and in the result. */
  readonly before: Face;
  readonly after: Face;
  /** Where {@link Pictures.still} shows the new features; undefined: where the old ones were. */
  readonly placed?: Face;
  /**
   * As it is found in the target from {@link before} on, as {@link after} is found in the result: a face that is found
   * anew is never quite where it was. Undefined: as `before`.
   */
  readonly anew?: Face;
}

export function measure(
  pictures: Pictures,
  faces: Faces,
  { landmarks, occluder, bare, encoded = 1 }: Known,
): Measures {
  const { before, after, moved = before, still = after } = pictures;
  const { placed = faces.before, anew = faces.before } = faces;
  const free = (mask: Plane): Plane => (occluder ? without(mask, occluder) : mask);
  const cheeks = free(areaOf(before, faces.before, CHEEKS));
  const [ownCheeks, newCheeks] = [before, after].map((picture) => meanLab(picture, cheeks)) as [
    number[],
    number[],
  ];
  let [patch, patchAt] = [0, ''];
  for (const [name, groups] of Object.entries(BESIDE)) {
    const [ownArea, newArea] = [areaOf(before, faces.before, groups), areaOf(still, placed, groups)];
    const [ownSkin, newSkin] = [free(ownArea), free(newArea)];
    if (Math.min(shareLeft(ownSkin, ownArea), shareLeft(newSkin, newArea)) < LEAST_SEEN) continue;
    const own = minus(meanLab(before, ownSkin), ownCheeks);
    // New lips reach where the old chin was, and no lip is a patch of skin.
    const now = minus(meanLab(still, newSkin), meanLab(still, cheeks));
    const change = Math.hypot(...minus(now, own));
    if (change > patch) [patch, patchAt] = [change, name];
  }
  const [ownFeatures, newFeatures] = [
    free(areaOf(before, faces.before, FEATURES)),
    free(areaOf(still, placed, FEATURES)),
  ];
  const [a, b] = [apertures(anew), apertures(faces.after)];
  return {
    tone: Math.hypot(...minus(newCheeks, ownCheeks)),
    patch,
    patchAt,
    texture: edges(after, cheeks) / edges(before, cheeks) / encoded,
    sharpness: edges(still, newFeatures) / edges(before, ownFeatures),
    seam: seamExcess(moved, after, faces.before, {
      front: notSkin(pictures, faces, occluder),
      drawn: pictures.drawn,
    }),
    drift: landmarkDrift(anew, faces.after, (index) => !hides(occluder, faces.before, index)),
    mouth: Math.abs(a.mouth - b.mouth),
    eyes: Math.abs(a.eyes - b.eyes),
    // The mesh that is found anew often shuts a mouth of which a hand hides a half.
    teeth: teethRatio({ before, after: still }, { before: faces.before, after: placed }, occluder),
    landmarks: Math.max(0, landmarks[1] - landmarks[0]),
    kept: occluder ? keptShare(before, after, occluder) : undefined,
    stained: bare ? stainedShare(before, still, bare, faces.before) : undefined,
  };
}

/** Areas with edges of their own. */
const EDGED = [...FEATURES, NOSE_BASE];
/** Distance from a feature up to which edges are those of the feature, as a share of the face width. */
const BESIDE_FEATURE = 0.05;

/**
 * Returns 1 on the features of both faces and on what is in front. Brows close to a fringe, lips beside a beard that
 * stays, or the shadow of a nose between lenses would be taken for a seam.
 */
function notSkin(pictures: Pictures, faces: Faces, occluder: Plane | undefined): Plane {
  const features = areaOf(pictures.before, faces.before, EDGED);
  const moved = areaOf(pictures.after, faces.after, EDGED);
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

const minus = (a: readonly number[], b: readonly number[]): number[] => a.map((v, i) => v - (b[i] as number));

function teethRatio(
  { before, after }: Pictures,
  faces: Faces,
  occluder: Plane | undefined,
): number | undefined {
  const mouths = [areaOf(before, faces.before, [LIPS_INNER]), areaOf(after, faces.after, [LIPS_INNER])];
  const seen = mouths.map((mouth) => (occluder ? shareLeft(without(mouth, occluder), mouth) : 1));
  // A corner of a mouth beside a glass says nothing of all.
  if (Math.min(...seen) < MOUTH_SEEN) return undefined;
  const own = teethArea(before, faces.before, occluder);
  // A line of a few pixels between lips says nothing.
  return own > TEETH ? teethArea(after, faces.after, occluder) / own : undefined;
}

/**
 * Returns the area of pixels between the lips that are as light as teeth and clearly less red than the lips, in
 * squared face widths.
 */
export function teethArea(picture: Picture, face: Face, occluder?: Plane): number {
  const free = (mask: Plane): Plane => (occluder ? without(mask, occluder) : mask);
  const [lightest = 0, reddest = 0] = meanLab(picture, free(areaOf(picture, face, CHEEKS)));
  // The mesh often runs through the teeth.
  const within = grow(areaOf(picture, face, [LIPS_INNER]), BEYOND_MESH * face.width);
  const mouth = free(within);
  const [, lips = 0] = meanLab(picture, free(without(areaOf(picture, face, [LIPS_OUTER]), within)));
  const most = Math.min(0.8 * reddest + 2, lips - PALER);
  let count = 0;
  for (let i = 0; i < mouth.data.length; i++) {
    if (!mouth.data[i]) continue;
    const [l, a] = lab([0, 1, 2].map((c) => linear(picture.data[i * 3 + c] as number)));
    if (l > 0.75 * lightest && a < most) count++;
  }
  return count / face.width ** 2;
}

/**
 * Returns the share of the face that is like neither the target nor the swap of a bare source, nor between. Eyes and
 * brows that lie a little aside are no stain: the mesh of a face is never quite the same with something in front.
 */
function stainedShare(before: Picture, after: Picture, bare: Picture, face: Face): number {
  const mask = areaOf(before, face, [FACE_OVAL]);
  const reach = Math.round(ASIDE * face.width);
  let [stained, all] = [0, 0];
  for (let i = 0; i < mask.data.length; i++) {
    if (!mask.data[i]) continue;
    all++;
    let most = 0;
    for (let c = 0; c < 3; c++) {
      const here = after.data[i * 3 + c] as number;
      const [low, high] = rangeAround([before, bare], i, c, reach);
      most = Math.max(most, here - high, low - here);
    }
    if (most > STAIN) stained++;
  }
  return stained / Math.max(1, all);
}

/** Returns the least and the greatest sample of a channel around a pixel of pictures of equal size. */
function rangeAround(
  pictures: readonly Picture[],
  i: number,
  channel: number,
  reach: number,
): readonly [number, number] {
  let [low, high] = [255, 0];
  for (const { width, height, data } of pictures) {
    const [x, y] = [i % width, Math.floor(i / width)];
    for (let ny = Math.max(0, y - reach); ny <= Math.min(height - 1, y + reach); ny++)
      for (let nx = Math.max(0, x - reach); nx <= Math.min(width - 1, x + reach); nx++) {
        const value = data[(ny * width + nx) * 3 + channel] as number;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
  }
  return [low, high];
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
