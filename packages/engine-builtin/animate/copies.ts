import type { Picture } from '@semblance/engine-api/picture';
import type { Plane } from '@semblance/vision/plane/plane';

/** The copies of which the hidden background is made, for each pixel of the small picture. */
export interface Copies {
  readonly sources: Int32Array;
  /** What is added to red, green and blue. */
  readonly tone: readonly Plane[];
  /** How far they count rather than the blur. */
  readonly share: Plane;
}

/**
 * Copies the colour of one pixel of the background from where the four pixels of the small picture around it have
 * their sources. Between different sources it blends.
 * @returns whether any of them has one
 */
export function copied(
  picture: Picture,
  {
    x,
    y,
    box,
    scale,
  }: { x: number; y: number; box: { readonly left: number; readonly top: number }; scale: number },
  { sources, tone }: Copies,
  out: number[],
): boolean {
  const { width, height } = tone[0] as Plane;
  const [gx, gy] = [(x + 0.5) / scale - 0.5, (y + 0.5) / scale - 0.5];
  const [x0, y0] = [Math.floor(gx), Math.floor(gy)];
  let all = 0;
  out.fill(0);
  for (let k = 0; k < 4; k++) {
    const [ix, iy] = [x0 + (k & 1), y0 + (k >> 1)];
    if (ix < 0 || iy < 0 || ix >= width || iy >= height) continue;
    const source = sources[iy * width + ix] as number;
    const weight = (1 - Math.abs(gx - ix)) * (1 - Math.abs(gy - iy));
    if (source < 0 || weight <= 0) continue;
    const sx = box.left + x + Math.round(((source % width) - ix) * scale);
    const sy = box.top + y + Math.round((Math.floor(source / width) - iy) * scale);
    const px = Math.min(picture.width - 1, Math.max(0, sx));
    const py = Math.min(picture.height - 1, Math.max(0, sy));
    const from = (py * picture.width + px) * picture.channels;
    for (let c = 0; c < 3; c++) {
      const toned = (picture.data[from + c] as number) + (tone[c]?.data[iy * width + ix] as number);
      out[c] = (out[c] as number) + weight * toned;
    }
    all += weight;
  }
  if (all < 1e-3) return false;
  for (let c = 0; c < 3; c++) out[c] = (out[c] as number) / all;
  return true;
}
