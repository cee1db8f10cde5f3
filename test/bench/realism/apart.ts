import type { Picture } from '@semblance/engine-api/picture';
import { type Face, POINTS } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { cubicSample } from '@semblance/vision/plane/cubic';
import type { Plane } from '@semblance/vision/plane/plane';
import { areaOf } from './face-areas.ts';
import { eyeDistance } from './identity-measures.ts';

/** Returns how far two animations of a still are apart at the same frames of their drivers. */
export function apart(
  a: { readonly frames: readonly Picture[]; readonly faces: readonly Face[] },
  b: { readonly frames: readonly Picture[]; readonly faces: readonly Face[] },
  by: number,
): { points: number; pixels: number; at: number } {
  let [points, pixels, count, most, at] = [0, 0, 0, -1, 0];
  for (const [n, face] of b.faces.entries()) {
    const [other, frame, theirs] = [a.faces[n + by], b.frames[n] as Picture, a.frames[n + by]];
    if (!other || !theirs) continue;
    let [sum, dx, dy] = [0, 0, 0];
    for (let p = 0; p < POINTS * 3; p += 3) {
      const x = (face.points[p] as number) - (other.points[p] as number);
      const y = (face.points[p + 1] as number) - (other.points[p + 1] as number);
      sum += Math.hypot(x, y);
      dx += x / POINTS;
      dy += y / POINTS;
    }
    const mean = (100 * sum) / POINTS / eyeDistance(other);
    points += mean;
    if (mean > most) [most, at] = [mean, n + by];
    pixels += difference(frame, theirs, areaOf(theirs, other, [FACE_OVAL]), { dx, dy });
    count++;
  }
  return { points: points / Math.max(1, count), pixels: pixels / Math.max(1, count), at };
}

/**
 * Returns the mean difference of a picture from another within a mask, in levels.
 * @param shift how far the face of the picture lies from that of the other: edges of glasses that lie a pixel aside
 * are another place of the head, which the points measure, and no other look of it
 */
function difference(a: Picture, b: Picture, mask: Plane, { dx, dy }: { dx: number; dy: number }): number {
  const { width, height } = mask;
  const rgb = new Float32Array(3);
  const there = { ...a, data: a.data as Uint8Array };
  let [sum, count] = [0, 0];
  for (let i = 0; i < mask.data.length; i++) {
    if (!mask.data[i]) continue;
    const [x, y] = [(i % width) + dx, Math.floor(i / width) + dy];
    if (x < 0 || y < 0 || x > width - 1 || y > height - 1) continue;
    cubicSample(there, x, y, rgb);
    for (let c = 0; c < 3; c++) sum += Math.abs((rgb[c] as number) - (b.data[i * 3 + c] as number)) / 3;
    count++;
  }
  return sum / Math.max(1, count);
}
