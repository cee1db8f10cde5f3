import type { Picture } from '@semblance/engine-api/picture';
import type { Face } from '@semblance/vision/face-mesh';
import { cropRgb, type RgbImage } from '@semblance/vision/picture';
import type { SourceFace } from './source-face.ts';

/** Mesh points in the middle of both cheeks. */
const CHEEKS = [50, 280] as const;
/** Half the side of the measured squares, as a share of the face width and in pixels at most. */
const REACH = 0.07;
const MOST_REACH = 40;

/** Returns the standard deviation of a face patch's noise on its cheeks, in levels of green. */
export function sourceNoise({ image, points, faceWidth }: SourceFace): number {
  return onCheeks(points, faceWidth, (x, y, reach) => greenNoise(image, x, y, reach));
}

/** Returns the same of a face in a picture. */
export function targetNoise(picture: Picture, { points, width }: Face): number {
  return onCheeks(points, width, (x, y, reach) => {
    const square = { originX: x - reach, originY: y - reach, scale: 1, angle: 0 };
    return greenNoise(cropRgb(picture, square, 2 * reach, 2 * reach), reach, reach, reach);
  });
}

/** Returns the lower value of both cheeks, because an edge counts as noise too. */
function onCheeks(
  points: Float32Array,
  faceWidth: number,
  noise: (x: number, y: number, reach: number) => number,
): number {
  const reach = Math.max(4, Math.round(Math.min(MOST_REACH, REACH * faceWidth)));
  const at = (index: number, axis: number): number => Math.round(points[index * 3 + axis] as number);
  return Math.min(...CHEEKS.map((index) => noise(at(index, 0), at(index, 1), reach)));
}

/** Estimates noise in a square around a pixel (Immerkær 1996, "Fast noise variance estimation"). @param at reads a pixel */
export function noiseAround(
  { width, height }: { readonly width: number; readonly height: number },
  at: (x: number, y: number) => number,
  { x, y, reach }: { readonly x: number; readonly y: number; readonly reach: number },
): number {
  let [sum, count] = [0, 0];
  for (let py = Math.max(1, y - reach); py <= Math.min(height - 2, y + reach); py++) {
    for (let px = Math.max(1, x - reach); px <= Math.min(width - 2, x + reach); px++) {
      const corners = at(px - 1, py - 1) + at(px + 1, py - 1) + at(px - 1, py + 1) + at(px + 1, py + 1);
      const sides = at(px - 1, py) + at(px + 1, py) + at(px, py - 1) + at(px, py + 1);
      sum += Math.abs(corners - 2 * sides + 4 * at(px, py));
      count++;
    }
  }
  return count > 0 ? (Math.sqrt(Math.PI / 2) / 6) * (sum / count) : 0;
}

function greenNoise(image: RgbImage, x: number, y: number, reach: number): number {
  const { width, data } = image;
  return noiseAround(image, (px, py) => data[(py * width + px) * 3 + 1] as number, { x, y, reach });
}
