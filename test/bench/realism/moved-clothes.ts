import type { Picture } from '@semblance/engine-api/picture';
import { pointOf } from '@semblance/vision/face-mesh';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import { eyeDistance } from './identity-measures.ts';
import { greatest, type Moved } from './moved-picture.ts';

/** Distance below the chin from which clothes are looked at, in eye distances. */
const CLOTHES = 0.45;
/** Distance within which a point of the still explains one of the frame, in eye distances. */
const NEAR = 0.2;
/** Levels by which a pixel is lighter or darker than all around it that the still has nowhere near. */
const SPECK = 5;

/**
 * Returns the number of points on the clothes that are lighter or darker than all around them, which the still does
 * not have nearby: where a moved part meets one that stays, a row of them shows.
 */
export function specks({ still, frame, people, faces }: Moved): number {
  const { width, height } = still;
  const iod = eyeDistance(faces.still);
  const own = greatest(points(still), Math.max(2, Math.round(NEAR * iod)));
  const now = points(frame);
  const top = Math.round(pointOf(faces.still.points, 152).y + CLOTHES * iod);
  let count = 0;
  for (let i = Math.max(0, top) * width; i < width * height; i++) {
    if ((people.still.data[i] as number) < 0.5 || (people.frame.data[i] as number) < 0.5) continue;
    if ((now.data[i] as number) - (own.data[i] as number) > SPECK) count++;
  }
  return count;
}

/** Returns by how much each pixel is lighter or darker than all around it. */
function points({ width, height, data }: Picture): Plane {
  const out = plane(width, height);
  const light = (i: number): number =>
    0.299 * (data[i * 3] as number) +
    0.587 * (data[i * 3 + 1] as number) +
    0.114 * (data[i * 3 + 2] as number);
  const lights = Float32Array.from({ length: width * height }, (_, i) => light(i));
  const around = [-width - 1, -width, -width + 1, -1, 1, width - 1, width, width + 1];
  for (let y = 1; y < height - 1; y++)
    for (let x = 1; x < width - 1; x++) {
      const i = y * width + x;
      let [low, high] = [Infinity, -Infinity];
      for (const step of around) {
        const other = lights[i + step] as number;
        low = Math.min(low, other);
        high = Math.max(high, other);
      }
      const here = lights[i] as number;
      out.data[i] = Math.max(0, here - high, low - here);
    }
  return out;
}
