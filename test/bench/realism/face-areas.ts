import type { Picture } from '@semblance/engine-api/picture';
import type { Face } from '@semblance/vision/face-mesh';
import { LEFT_BROW, LEFT_EYE, LIPS_OUTER, RIGHT_BROW, RIGHT_EYE } from '@semblance/vision/face-regions';
import { fillPolygon, type Plane, plane } from '@semblance/vision/plane/plane';
import { lab, linear } from './cases/colour.ts';

/** Skin that no feature reaches: both cheeks and both sides of the jaw. */
export const CHEEKS = [
  [50, 205, 187, 123, 117],
  [280, 425, 411, 352, 346],
] as const;
/** Skin on and beside the features, where patches of another complexion show. */
export const BESIDE = {
  nose: [[6, 197, 195, 5, 4, 45, 51, 3, 196, 122, 351, 419, 248, 281, 275]],
  'upper lip': [[98, 2, 327, 391, 393, 164, 167, 165]],
  chin: [[83, 18, 313, 421, 200, 201]],
  'under the eyes': [
    [230, 229, 119, 118, 101, 100],
    [450, 449, 348, 347, 330, 329],
  ],
  'between the brows': [[107, 9, 336, 285, 8, 55]],
} as const;
export const FEATURES = [RIGHT_EYE, LEFT_EYE, RIGHT_BROW, LEFT_BROW, LIPS_OUTER];

/** Returns 1 within the outlines of mesh points. */
export function areaOf(picture: Picture, { points }: Face, groups: readonly (readonly number[])[]): Plane {
  const mask = plane(picture.width, picture.height);
  for (const group of groups)
    fillPolygon(
      mask,
      group.flatMap((i) => [points[i * 3] as number, points[i * 3 + 1] as number]),
    );
  return mask;
}

/** Returns an area without what an object in front covers. */
export function without(mask: Plane, occluder: Plane): Plane {
  const out = plane(mask.width, mask.height);
  for (let i = 0; i < out.data.length; i++)
    out.data[i] = (occluder.data[i] as number) > 0.02 ? 0 : (mask.data[i] as number);
  return out;
}

/** Returns the share of an area that a part of it has. */
export function shareLeft(part: Plane, whole: Plane): number {
  const size = ({ data }: Plane): number => data.reduce((sum, share) => sum + share, 0);
  return size(part) / Math.max(1, size(whole));
}

/** Returns whether an object is in front of a mesh point. @param occluder share of each pixel that it covers */
export function hides(occluder: Plane | undefined, { points }: Face, index: number): boolean {
  if (!occluder) return false;
  const { width, height, data } = occluder;
  const x = Math.min(width - 1, Math.max(0, Math.floor(points[index * 3] as number)));
  const y = Math.min(height - 1, Math.max(0, Math.floor(points[index * 3 + 1] as number)));
  return (data[y * width + x] as number) > 0.02;
}

/** Returns the mean colour of an area. */
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
