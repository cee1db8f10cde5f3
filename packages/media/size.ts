import type { Size } from './types.ts';

/**
 * Returns the size of an output whose shorter side is `shorter` pixels: same aspect, even sides, never larger than
 * `from` in either direction. Without `shorter` the size is unchanged.
 */
export function outputSize(from: Size, shorter?: number): Size {
  const least = Math.min(from.width, from.height);
  const scale = shorter === undefined ? 1 : Math.min(1, shorter / least);
  const even = (length: number, most: number) =>
    Math.max(2, Math.min(2 * Math.round(length / 2), most - (most % 2)));
  return { width: even(from.width * scale, from.width), height: even(from.height * scale, from.height) };
}

/**
 * Returns the size of a stored picture after its pixels are made square, by stretching its rows, and it is rotated
 * upright.
 * @param pixelAspect width of a stored pixel over its height
 */
export function uprightSize(coded: Size, pixelAspect: number, quarterTurns: number): Size {
  const even = (length: number) => Math.max(2, 2 * Math.floor(length / 2));
  const width = even(pixelAspect === 1 ? coded.width : Math.round(coded.width * pixelAspect));
  const height = even(coded.height);
  return quarterTurns % 2 ? { width: height, height: width } : { width, height };
}
