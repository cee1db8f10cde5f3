import type { Picture } from '@semblance/engine-api/picture';
import type { CropTransform, Point, RgbImage } from '@semblance/vision/picture';
import { type Plane, sample } from '@semblance/vision/plane/plane';

/** Share of each pixel that is replaced, on a grid that may be coarser than the picture. */
export interface PasteMask {
  /** Top left corner of the grid in the picture, and picture pixels per grid pixel. */
  readonly originX: number;
  readonly originY: number;
  readonly scale: number;
  readonly share: Plane;
}

/** Returns the share of a mask at a place of the picture. */
export function shareAt({ originX, originY, scale, share }: PasteMask, { x, y }: Point): number {
  return sample(share, (x - originX) / scale, (y - originY) / scale);
}

const LUMA = [0.299, 0.587, 0.114] as const;

/**
 * Blends a crop in place into the picture from which it was taken, by the shares of the mask. Pixels with a share
 * of 0 are not written. A crop finer than the picture is averaged.
 * @param blend share of the crop where the mask is 1
 */
export function pasteBack(
  picture: Picture,
  crop: RgbImage,
  transform: CropTransform,
  mask: PasteMask,
  blend = 1,
): void {
  const { data, channels, width } = picture;
  const { share, originX, originY } = mask;
  const full = data instanceof Uint16Array ? 257 : 1;
  const left = Math.max(0, Math.floor(originX));
  const top = Math.max(0, Math.floor(originY));
  const right = Math.min(width, Math.ceil(originX + share.width * mask.scale));
  const bottom = Math.min(picture.height, Math.ceil(originY + share.height * mask.scale));
  const count = Math.max(0, right - left);
  const shares = new Float64Array(count);
  const colours = new Float64Array(count * 3);
  for (let y = top; y < bottom; y++) {
    if (!readShares(mask, { left, y, factor: blend }, shares)) continue;
    readRow(crop, transform, { left, y, shares }, colours);
    for (let i = 0, at = (y * width + left) * channels; i < count; i++, at += channels) {
      const part = shares[i] as number;
      if (!(part > 0)) continue;
      const [r, g, b] = [
        colours[i * 3] as number,
        colours[i * 3 + 1] as number,
        colours[i * 3 + 2] as number,
      ];
      if (channels < 3) {
        data[at] = mix(data[at] as number, (LUMA[0] * r + LUMA[1] * g + LUMA[2] * b) * full, part);
        continue;
      }
      data[at] = mix(data[at] as number, r * full, part);
      data[at + 1] = mix(data[at + 1] as number, g * full, part);
      data[at + 2] = mix(data[at + 2] as number, b * full, part);
    }
  }
}

function mix(old: number, fresh: number, share: number): number {
  // Not Math.round, which takes as long as all the rest.
  return Math.floor(old + (fresh - old) * share + 0.5);
}

/**
 * Reads the shares of a row of the picture from `left` on, times `factor`: the same as {@link shareAt}, but the height
 * is worked out once.
 * @param out one value for each pixel
 * @returns whether any may be more than 0, as none is above and below a tilted face; if not, `out` is not written
 */
export function readShares(
  { share: { width, height, data }, originX, originY, scale }: PasteMask,
  { left, y, factor = 1 }: { readonly left: number; readonly y: number; readonly factor?: number },
  out: Float64Array,
): boolean {
  const py = Math.min(height - 1, Math.max(0, (y + 0.5 - originY) / scale - 0.5));
  const y0 = py | 0;
  const upper = y0 * width;
  const lower = y0 + 1 < height ? upper + width : upper;
  const fy = py - y0;
  let [from, to] = [width, -1];
  for (let i = 0; i < width; i++) {
    if (!((data[upper + i] as number) > 0 || (data[lower + i] as number) > 0)) continue;
    if (i < from) from = i;
    to = i;
  }
  if (to < 0) return false;
  for (let x = 0; x < out.length; x++) {
    const px = Math.min(width - 1, Math.max(0, (left + x + 0.5 - originX) / scale - 0.5));
    const x0 = px | 0;
    if (x0 > to || x0 + 1 < from) {
      out[x] = 0;
      continue;
    }
    const x1 = x0 + 1 < width ? x0 + 1 : x0;
    const fx = px - x0;
    const above = (data[upper + x0] as number) * (1 - fx) + (data[upper + x1] as number) * fx;
    const below = (data[lower + x0] as number) * (1 - fx) + (data[lower + x1] as number) * fx;
    out[x] = factor * (above * (1 - fy) + below * fy);
  }
  return true;
}

/**
 * Reads a row of the picture from a crop, where its shares are more than 0: the mean of the interpolated crop points
 * under each pixel, as many along each axis as the crop is finer.
 * @param out red, green and blue of each pixel
 */
function readRow(
  { width, height, data }: RgbImage,
  { scale, angle, originX, originY }: CropTransform,
  { left, y, shares }: { readonly left: number; readonly y: number; readonly shares: Float64Array },
  out: Float64Array,
): void {
  const taps = Math.min(8, Math.max(1, Math.round(1 / scale)));
  const cos = Math.cos(angle) / scale;
  const sin = Math.sin(angle) / scale;
  const weight = 1 / (taps * taps);
  const [lastX, lastY] = [width - 1, height - 1];
  const stride = width * 3;
  for (let i = 0; i < shares.length; i++) {
    if (!((shares[i] as number) > 0)) continue;
    const x = left + i;
    let r = 0;
    let g = 0;
    let b = 0;
    for (let v = 0; v < taps; v++) {
      const dy = y + (v + 0.5) / taps - originY;
      for (let u = 0; u < taps; u++) {
        const dx = x + (u + 0.5) / taps - originX;
        const px = Math.min(lastX, Math.max(0, cos * dx + sin * dy - 0.5));
        const py = Math.min(lastY, Math.max(0, cos * dy - sin * dx - 0.5));
        const x0 = px | 0;
        const y0 = py | 0;
        const fx = px - x0;
        const fy = py - y0;
        const i00 = y0 * stride + x0 * 3;
        const i01 = x0 < lastX ? i00 + 3 : i00;
        const down = y0 < lastY ? stride : 0;
        const i10 = i00 + down;
        const i11 = i01 + down;
        const w11 = fx * fy;
        const w01 = fx - w11;
        const w10 = fy - w11;
        const w00 = 1 - fx - w10;
        r +=
          w00 * (data[i00] as number) +
          w01 * (data[i01] as number) +
          w10 * (data[i10] as number) +
          w11 * (data[i11] as number);
        g +=
          w00 * (data[i00 + 1] as number) +
          w01 * (data[i01 + 1] as number) +
          w10 * (data[i10 + 1] as number) +
          w11 * (data[i11 + 1] as number);
        b +=
          w00 * (data[i00 + 2] as number) +
          w01 * (data[i01 + 2] as number) +
          w10 * (data[i10 + 2] as number) +
          w11 * (data[i11 + 2] as number);
      }
    }
    out[i * 3] = r * weight;
    out[i * 3 + 1] = g * weight;
    out[i * 3 + 2] = b * weight;
  }
}
