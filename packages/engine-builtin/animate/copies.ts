import type { Picture } from '@semblance/engine-api/picture';
import type { RgbImage } from '@semblance/vision/picture';
import type { Plane } from '@semblance/vision/plane/plane';

/** The copies of which the hidden background is made, for each pixel of the small picture. */
export interface Copies {
  /** Whether the pixel has a source, and the way to it in pixels of the picture, across and down. */
  readonly exists: Uint8Array;
  readonly across: Int16Array;
  readonly down: Int16Array;
  /** What is added to red, green and blue. */
  readonly tone: Float32Array;
  /** How far they count rather than the blur. */
  readonly share: Plane;
}

/**
 * @param sources as of a completion
 * @param scale pixels of the picture per pixel of the small one
 */
export function copiesOf(sources: Int32Array, tone: RgbImage, share: Plane, scale: number): Copies {
  const { width } = tone;
  const exists = new Uint8Array(sources.length);
  const across = new Int16Array(sources.length);
  const down = new Int16Array(sources.length);
  for (let i = 0; i < sources.length; i++) {
    const source = sources[i] as number;
    if (source < 0) continue;
    exists[i] = 1;
    across[i] = Math.round(((source % width) - (i % width)) * scale);
    down[i] = Math.round((Math.floor(source / width) - Math.floor(i / width)) * scale);
  }
  return { exists, across, down, tone: tone.data, share };
}

/** The four pixels of a small picture around a place, and their weights. */
export interface Corners {
  readonly at: Int32Array;
  readonly weights: Float64Array;
}

/**
 * Copies the colour of one pixel of the background from where the four pixels of the small picture around it have
 * their sources. Between different sources it blends.
 * @returns whether any of them has one
 */
export function copied(
  { width, height, channels, data }: Picture,
  x: number,
  y: number,
  { at, weights }: Corners,
  { exists, across, down, tone }: Copies,
  out: Float64Array,
): boolean {
  let red = 0;
  let green = 0;
  let blue = 0;
  let all = 0;
  for (let k = 0; k < 4; k++) {
    const i = at[k] as number;
    const weight = weights[k] as number;
    if (weight <= 0 || !exists[i]) continue;
    const px = Math.min(width - 1, Math.max(0, x + (across[i] as number)));
    const py = Math.min(height - 1, Math.max(0, y + (down[i] as number)));
    const from = (py * width + px) * channels;
    red += weight * ((data[from] as number) + (tone[i * 3] as number));
    green += weight * ((data[from + 1] as number) + (tone[i * 3 + 1] as number));
    blue += weight * ((data[from + 2] as number) + (tone[i * 3 + 2] as number));
    all += weight;
  }
  if (all < 1e-3) return false;
  out[0] = red / all;
  out[1] = green / all;
  out[2] = blue / all;
  return true;
}
