import type { Picture } from '@semblance/engine-api/picture';
import type { Samples } from '@semblance/vision/plane/cubic';

/** The picture's own fine texture that the new face gets. */
export interface Grain {
  /** From 0 to 1. */
  readonly share: number;
  /** Largest amplitude, in levels. */
  readonly limit: number;
}

/** Largest amplitude that counts as noise: in standard deviations of it, and in levels. */
const NOISE_LIMIT = 2;
const MOST_GRAIN = 10;

/**
 * Returns the grain that makes a face as noisy as the picture around it.
 * @param wanted noise of the picture, in levels
 * @param there noise of the face
 */
export function missingGrain(wanted: number, there: number): Grain {
  const share = wanted > there ? Math.sqrt(1 - (there / wanted) ** 2) : 0;
  // What is stronger than noise is an edge of the target's own features.
  return { share, limit: Math.min(MOST_GRAIN, NOISE_LIMIT * wanted) };
}

/**
 * Adds the finest texture of the picture at this place (film grain, sensor noise, pores) to a face that was
 * enlarged and so has none. Without it the face looks too smooth and pasted in.
 */
export function addGrain(
  rgb: Float32Array,
  before: Region,
  x: number,
  y: number,
  { share, limit }: Grain,
): void {
  const { width, height, data, channels, unit, green } = before;
  const left = Math.max(0, x - 2) * channels + green;
  const right = Math.min(width - 1, x + 2) * channels + green;
  const centre = x * channels + green;
  const middle = y * width * channels;
  const above = Math.max(0, y - 2) * width * channels;
  const below = Math.min(height - 1, y + 2) * width * channels;
  const here = (data[middle + centre] as number) * unit;
  const sum =
    (data[above + left] as number) +
    (data[above + right] as number) +
    (data[below + left] as number) +
    (data[below + right] as number) +
    (data[middle + left] as number) +
    (data[middle + right] as number) +
    (data[above + centre] as number) +
    (data[below + centre] as number) +
    (data[middle + centre] as number);
  const grain = share * Math.min(limit, Math.max(-limit, here - (sum * unit) / 9));
  rgb[0] = (rgb[0] as number) + grain;
  rgb[1] = (rgb[1] as number) + grain;
  rgb[2] = (rgb[2] as number) + grain;
}

/** A part of the original picture, in its own sample format. */
export interface Region extends Samples {
  /** Factor from samples to 0–255. */
  readonly unit: number;
  /** Offset of green in a pixel; 0 for grey, which stands for all channels. */
  readonly green: number;
}

/** Copies a part of a picture. */
export function region(picture: Picture, left: number, top: number, right: number, bottom: number): Region {
  const { channels } = picture;
  const width = right - left;
  const height = bottom - top;
  const wide = picture.data instanceof Uint16Array;
  const data = wide ? new Uint16Array(width * height * channels) : new Uint8Array(width * height * channels);
  for (let y = 0; y < height; y++) {
    const from = ((top + y) * picture.width + left) * channels;
    data.set(picture.data.subarray(from, from + width * channels), y * width * channels);
  }
  return { width, height, channels, data, unit: wide ? 1 / 257 : 1, green: channels >= 3 ? 1 : 0 };
}
