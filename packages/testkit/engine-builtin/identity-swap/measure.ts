import type { VideoFrame } from '@semblance/media/types';
import { regionToRgb } from '@semblance/media/yuv';
import { grow, type Plane, plane } from '@semblance/vision/plane/plane';

/** Least difference from the empty room at which a pixel counts as person, as a sum over red, green and blue. */
const DIFFERENT = 36;

export function rgbOf(frame: VideoFrame): Uint8Array {
  const { width, height } = frame;
  return regionToRgb(frame, { x: 0, y: 0, width, height }, { range: 'tv', space: 'bt709' }).data;
}

/** Returns the mask of the pixels that differ from the empty room. */
export function silhouette(rgb: Uint8Array, empty: Uint8Array): Uint8Array {
  return Uint8Array.from({ length: rgb.length / 3 }, (_, i) => {
    const far = (c: number): number => Math.abs((rgb[i * 3 + c] as number) - (empty[i * 3 + c] as number));
    return far(0) + far(1) + far(2) > DIFFERENT ? 255 : 0;
  });
}

/** Returns the intersection of two masks over their union. */
export function overlap(a: Uint8Array, b: Uint8Array): number {
  let [both, either] = [0, 0];
  for (let i = 0; i < a.length; i++) {
    const [p, q] = [(a[i] as number) > 127, (b[i] as number) > 127];
    if (p && q) both++;
    if (p || q) either++;
  }
  return both / Math.max(1, either);
}

/**
 * Returns the peak signal-to-noise ratio (dB) of a frame against the empty room, over the pixels farther than
 * `away` from the person.
 */
export function psnrOutside(
  rgb: Uint8Array,
  empty: Uint8Array,
  mask: Uint8Array,
  size: { readonly width: number; readonly height: number; readonly away: number },
): number {
  const person: Plane = plane(size.width, size.height);
  for (let i = 0; i < mask.length; i++) person.data[i] = (mask[i] as number) > 25 ? 1 : 0;
  const near = grow(person, size.away);
  let [sum, count] = [0, 0];
  for (let i = 0; i < mask.length; i++) {
    if ((near.data[i] as number) > 0.5) continue;
    for (let c = 0; c < 3; c++) sum += ((rgb[i * 3 + c] as number) - (empty[i * 3 + c] as number)) ** 2;
    count += 3;
  }
  return 10 * Math.log10(255 ** 2 / Math.max(1e-6, sum / Math.max(1, count)));
}

/** Returns the mean colour under a mask. */
export function meanColour(rgb: Uint8Array, mask: Uint8Array): [number, number, number] {
  const sums: [number, number, number] = [0, 0, 0];
  let count = 0;
  for (let i = 0; i < mask.length; i++) {
    if ((mask[i] as number) < 200) continue;
    for (const c of [0, 1, 2] as const) sums[c] += rgb[i * 3 + c] as number;
    count++;
  }
  return sums.map((sum) => sum / Math.max(1, count)) as [number, number, number];
}
