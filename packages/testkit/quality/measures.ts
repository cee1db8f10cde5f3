import type { Picture } from '@semblance/engine-api/picture';
import { type Face, pointOf } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { distanceInside, fillPolygon, grow, type Plane, plane } from '@semblance/vision/plane/plane';

/** Returns the distance between the outer corners of the eyes, in pixels. */
function eyeDistance(face: Face): number {
  const a = pointOf(face.points, 33);
  const b = pointOf(face.points, 263);
  return Math.hypot(a.x - b.x, a.y - b.y);
}

/** Returns the opening of the mouth and the mean opening of the eyes, as shares of the eye distance. */
export function apertures(face: Face): { mouth: number; eyes: number } {
  const gap = (i: number, j: number): number => {
    const a = pointOf(face.points, i);
    const b = pointOf(face.points, j);
    return Math.hypot(a.x - b.x, a.y - b.y) / eyeDistance(face);
  };
  return { mouth: gap(13, 14), eyes: (gap(159, 145) + gap(386, 374)) / 2 };
}

/** The outline from ear to ear over the forehead. The jaw takes the source's shape. */
const UPPER_OUTLINE = FACE_OVAL.filter((_, i) => i <= FACE_OVAL.indexOf(454) || i >= FACE_OVAL.indexOf(234));

/**
 * Returns the mean move of the upper face outline between two fits, in % of the eye distance: the change of pose and
 * position.
 * @param seen whether a mesh point is seen; where something is in front both fits are guesses
 */
export function landmarkDrift(
  before: Face,
  after: Face,
  seen: (index: number) => boolean = () => true,
): number {
  const outline = UPPER_OUTLINE.filter(seen);
  let sum = 0;
  for (const index of outline) {
    const a = pointOf(before.points, index);
    const b = pointOf(after.points, index);
    sum += Math.hypot(a.x - b.x, a.y - b.y);
  }
  return (100 * sum) / Math.max(1, outline.length) / eyeDistance(before);
}

interface Window {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** @param margin around the outline, in pixels */
function faceWindow(picture: Picture, face: Face, margin: number): Window {
  const xs = FACE_OVAL.map((i) => pointOf(face.points, i).x);
  const ys = FACE_OVAL.map((i) => pointOf(face.points, i).y);
  const left = Math.max(0, Math.floor(Math.min(...xs) - margin));
  const top = Math.max(0, Math.floor(Math.min(...ys) - margin));
  const width = Math.min(picture.width, Math.ceil(Math.max(...xs) + margin)) - left;
  const height = Math.min(picture.height, Math.ceil(Math.max(...ys) + margin)) - top;
  return { left, top, width, height };
}

function ovalMask(window: Window, face: Face): Plane {
  const mask = plane(window.width, window.height);
  fillPolygon(
    mask,
    FACE_OVAL.flatMap((i) => {
      const { x, y } = pointOf(face.points, i);
      return [x - window.left, y - window.top];
    }),
  );
  return mask;
}

/** How far a jaw that moves takes its surroundings with it, in face widths. */
const JAW_REACH = 0.35;

/** Returns the number of changed pixels that are further from the face than the jaw takes anything with it. */
export function changedOutside(before: Picture, after: Picture, face: Face): number {
  const reach = JAW_REACH * face.width;
  const window = faceWindow(before, face, reach + 8);
  const mask = grow(ovalMask(window, face), reach);
  let changed = 0;
  for (let y = 0; y < before.height; y++) {
    for (let x = 0; x < before.width; x++) {
      const i = (y * before.width + x) * before.channels;
      let same = true;
      for (let c = 0; c < before.channels; c++) same &&= before.data[i + c] === after.data[i + c];
      if (same) continue;
      const mx = x - window.left;
      const my = y - window.top;
      const inWindow = mx >= 0 && my >= 0 && mx < window.width && my < window.height;
      if (!inWindow || mask.data[my * window.width + mx] === 0) changed++;
    }
  }
  return changed;
}

/** Depth of the border band of a swap, and of each ring of it, as shares of the face's width. */
const BORDER = 0.12;
const RING = 0.01;
/** Share of the pixels of the longest ring below which a ring is diluted: a few pixels are no border. */
const LEAST_RING = 1 / 8;
/** How far a jaw moves at most beyond its outline, in face widths. */
const JAW_BEYOND = 0.07;

/**
 * Returns the gradient (levels per pixel) that the swap added along its border: the mean of the changed pixels that
 * are equally far from the nearest unchanged one, where it is largest. A visible seam adds several levels.
 * @param before with features and jaw moved as those of `after` have, because edges that move are no seam
 * @param front share of each pixel that is no skin: what is in front of the face, features. Edges there are no seam.
 * @param drawn share of the swap in each pixel; undefined: pixels that differ are those of the swap, as long as no
 * compression has changed any
 */
export function seamExcess(
  before: Picture,
  after: Picture,
  face: Face,
  { front, drawn }: { readonly front?: Plane; readonly drawn?: Plane | undefined } = {},
): number {
  const window = faceWindow(before, face, 8 + JAW_BEYOND * face.width);
  const { width, height } = window;
  const brightness = (picture: Picture, x: number, y: number): number => {
    const i = ((window.top + y) * picture.width + window.left + x) * picture.channels;
    return (
      0.299 * (picture.data[i] as number) +
      0.587 * (picture.data[i + 1] as number) +
      0.114 * (picture.data[i + 2] as number)
    );
  };
  const inFront = (x: number, y: number): boolean =>
    (front?.data[(window.top + y) * before.width + window.left + x] ?? 0) > 0.02;
  const changed = plane(width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (inFront(x, y)) changed.data[y * width + x] = 1;
      if (drawn) {
        const share = drawn.data[(window.top + y) * before.width + window.left + x] as number;
        if (share > 0) changed.data[y * width + x] = 1;
        continue;
      }
      const i = ((window.top + y) * before.width + window.left + x) * before.channels;
      for (let c = 0; c < 3; c++)
        if (before.data[i + c] !== after.data[i + c]) changed.data[y * width + x] = 1;
    }
  }
  const depth = distanceInside(changed);
  const step = Math.max(1, Math.round(face.width * 0.01));
  const rings = Array.from({ length: Math.round(BORDER / RING) }, () => ({ sum: 0, count: 0 }));
  for (let y = step; y + step < height; y++) {
    for (let x = step; x + step < width; x++) {
      const d = depth.data[y * width + x] as number;
      const ring = rings[Math.floor(d / Math.max(1, RING * face.width))];
      if (d === 0 || !ring || inFront(x, y)) continue;
      const gradient = (picture: Picture): number =>
        Math.hypot(
          brightness(picture, x + step, y) - brightness(picture, x - step, y),
          brightness(picture, x, y + step) - brightness(picture, x, y - step),
        ) /
        (2 * step);
      ring.sum += Math.max(0, gradient(after) - gradient(before));
      ring.count++;
    }
  }
  const least = LEAST_RING * Math.max(1, ...rings.map(({ count }) => count));
  return Math.max(...rings.map(({ sum, count }) => sum / Math.max(least, count)));
}
