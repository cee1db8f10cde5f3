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
  const taps = Math.min(8, Math.max(1, Math.round(1 / transform.scale)));
  const rgb = new Float64Array(3);
  for (let y = top; y < bottom; y++) {
    const gy = (y + 0.5 - originY) / mask.scale;
    if (isEmptyRow(share, gy)) continue;
    for (let x = left; x < right; x++) {
      const part = blend * sample(share, (x + 0.5 - originX) / mask.scale, gy);
      if (!(part > 0)) continue;
      readAveraged(crop, transform, { x, y, taps }, rgb);
      const at = (y * width + x) * channels;
      if (channels < 3) {
        const grey =
          LUMA[0] * (rgb[0] as number) + LUMA[1] * (rgb[1] as number) + LUMA[2] * (rgb[2] as number);
        data[at] = mix(data[at] as number, grey * full, part);
        continue;
      }
      for (let c = 0; c < 3; c++) data[at + c] = mix(data[at + c] as number, (rgb[c] as number) * full, part);
    }
  }
}

function mix(old: number, fresh: number, share: number): number {
  return Math.round(old + (fresh - old) * share);
}

/** Returns whether the mask rows around a height are all zero, such as those above and below a tilted face. */
function isEmptyRow({ width, height, data }: Plane, y: number): boolean {
  const first = Math.min(height - 1, Math.max(0, Math.floor(y - 0.5)));
  const last = Math.min(height - 1, first + 1);
  for (let i = first * width; i < (last + 1) * width; i++) if ((data[i] as number) > 0) return false;
  return true;
}

/** Returns the mean of taps² interpolated crop points under a pixel of the picture. */
function readAveraged(
  { width, height, data }: RgbImage,
  { scale, angle, originX, originY }: CropTransform,
  pixel: { readonly x: number; readonly y: number; readonly taps: number },
  out: Float64Array,
): void {
  const { taps } = pixel;
  const cos = Math.cos(angle) / scale;
  const sin = Math.sin(angle) / scale;
  let [r, g, b] = [0, 0, 0];
  for (let t = 0; t < taps * taps; t++) {
    const dx = pixel.x + ((t % taps) + 0.5) / taps - originX;
    const dy = pixel.y + (Math.floor(t / taps) + 0.5) / taps - originY;
    const px = Math.min(width - 1, Math.max(0, cos * dx + sin * dy - 0.5));
    const py = Math.min(height - 1, Math.max(0, cos * dy - sin * dx - 0.5));
    const x0 = px | 0;
    const y0 = py | 0;
    const fx = px - x0;
    const fy = py - y0;
    const i00 = (y0 * width + x0) * 3;
    const i01 = x0 < width - 1 ? i00 + 3 : i00;
    const down = y0 < height - 1 ? width * 3 : 0;
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
  const weight = 1 / (taps * taps);
  out[0] = r * weight;
  out[1] = g * weight;
  out[2] = b * weight;
}
