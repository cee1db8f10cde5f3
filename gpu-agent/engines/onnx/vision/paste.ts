import { type Plane, sample } from '../../builtin/swap/plane.ts';
import { type CropTransform, type Picture, type RgbImage, toCrop } from '../../builtin/vision/picture.ts';

/** How much of each pixel of a part of a picture is replaced, on a grid that may be coarser than the picture. */
export interface PasteMask {
  /** Where the grid's top left corner lies in the picture, and picture pixels per grid pixel. */
  readonly originX: number;
  readonly originY: number;
  readonly scale: number;
  readonly share: Plane;
}

const LUMA = [0.299, 0.587, 0.114] as const;

/**
 * Mixes a crop into the picture that it was taken from, in place: its pixels to the share that the mask says. Where the
 * mask is 0 nothing is written. A crop finer than the picture is averaged.
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
  const full = data instanceof Uint16Array ? 257 : 1;
  const left = Math.max(0, Math.floor(mask.originX));
  const top = Math.max(0, Math.floor(mask.originY));
  const right = Math.min(width, Math.ceil(mask.originX + mask.share.width * mask.scale));
  const bottom = Math.min(picture.height, Math.ceil(mask.originY + mask.share.height * mask.scale));
  const taps = Math.min(8, Math.max(1, Math.round(1 / transform.scale)));
  const rgb = new Float64Array(3);
  for (let y = top; y < bottom; y++) {
    for (let x = left; x < right; x++) {
      const gx = (x + 0.5 - mask.originX) / mask.scale;
      const gy = (y + 0.5 - mask.originY) / mask.scale;
      const share = blend * sample(mask.share, gx, gy);
      if (!(share > 0)) continue;
      readAveraged(crop, transform, x, y, taps, rgb);
      const at = (y * width + x) * channels;
      if (channels < 3) {
        const grey =
          LUMA[0] * (rgb[0] as number) + LUMA[1] * (rgb[1] as number) + LUMA[2] * (rgb[2] as number);
        data[at] = Math.round(mix(data[at] as number, grey * full, share));
        continue;
      }
      for (let c = 0; c < 3; c++) {
        data[at + c] = Math.round(mix(data[at + c] as number, (rgb[c] as number) * full, share));
      }
    }
  }
}

function mix(old: number, fresh: number, share: number): number {
  return old + (fresh - old) * share;
}

/** The mean of taps² points of the crop under a pixel of the picture. */
function readAveraged(
  crop: RgbImage,
  transform: CropTransform,
  x: number,
  y: number,
  taps: number,
  out: Float64Array,
): void {
  out.fill(0);
  const weight = 1 / (taps * taps);
  for (let v = 0; v < taps; v++) {
    for (let u = 0; u < taps; u++) {
      const point = toCrop(transform, x + (u + 0.5) / taps, y + (v + 0.5) / taps);
      addBilinear(crop, point.x - 0.5, point.y - 0.5, weight, out);
    }
  }
}

function addBilinear(crop: RgbImage, x: number, y: number, weight: number, out: Float64Array): void {
  const { width, height, data } = crop;
  const px = Math.min(width - 1, Math.max(0, x));
  const py = Math.min(height - 1, Math.max(0, y));
  const x0 = px | 0;
  const y0 = py | 0;
  const fx = px - x0;
  const fy = py - y0;
  const i00 = (y0 * width + x0) * 3;
  const i01 = x0 < width - 1 ? i00 + 3 : i00;
  const i10 = y0 < height - 1 ? i00 + width * 3 : i00;
  const i11 = i10 + (i01 - i00);
  for (let c = 0; c < 3; c++) {
    const upper = (data[i00 + c] as number) * (1 - fx) + (data[i01 + c] as number) * fx;
    const lower = (data[i10 + c] as number) * (1 - fx) + (data[i11 + c] as number) * fx;
    out[c] = (out[c] as number) + weight * (upper * (1 - fy) + lower * fy);
  }
}
