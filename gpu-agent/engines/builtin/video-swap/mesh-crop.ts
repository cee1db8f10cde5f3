import { fromRgbFactors } from '../../../media/yuv.ts';
import type { CropSource } from '../vision/face-mesh.ts';
import { type CropTransform, toPicture } from '../vision/picture.ts';
import type { Colors, Frame } from './frame-part.ts';

/** Most samples of brightness for one pixel of a crop, in both directions. */
const MOST_TAPS = 2;

/**
 * Crops straight from a frame's own planes: nothing but what the mesh network looks at is converted. Brightness is
 * averaged, which takes noise out of the mesh; colour, which is coarser and tells it less, is taken as it is.
 */
export function cropsOfFrame({ width, height, data }: Frame, color: Colors): CropSource {
  const { y0, y1, redOfV, greenOfU, greenOfV, blueOfU } = inverseOf(width, height, color);
  const uAt = width * height;
  const vAt = uAt + uAt / 4;
  return (crop, size) => {
    const out = new Float32Array(size * size * 3);
    const within = liesWithin(crop, size, width, height);
    const taps = Math.min(MOST_TAPS, Math.max(1, Math.round(crop.scale)));
    const cos = Math.cos(crop.angle) * crop.scale;
    const sin = Math.sin(crop.angle) * crop.scale;
    const stepX = cos / taps;
    const stepY = sin / taps;
    const by = y1 / (taps * taps);
    for (let y = 0, o = 0; y < size; y++) {
      for (let x = 0; x < size; x++, o += 3) {
        let sum = 0;
        for (let v = 0; v < taps; v++) {
          const cy = y + (v + 0.5) / taps;
          let px = crop.originX + cos * (x + 0.5 / taps) - sin * cy;
          let py = crop.originY + sin * (x + 0.5 / taps) + cos * cy;
          if (within) {
            for (let u = 0; u < taps; u++, px += stepX, py += stepY) {
              sum += data[(py | 0) * width + (px | 0)] as number;
            }
            continue;
          }
          for (let u = 0; u < taps; u++, px += stepX, py += stepY) {
            const ix = px < 0 ? 0 : px >= width ? width - 1 : px | 0;
            const iy = py < 0 ? 0 : py >= height ? height - 1 : py | 0;
            sum += data[iy * width + ix] as number;
          }
        }
        const mx = crop.originX + cos * (x + 0.5) - sin * (y + 0.5);
        const my = crop.originY + sin * (x + 0.5) + cos * (y + 0.5);
        const ix = mx < 0 ? 0 : mx >= width ? width - 1 : mx | 0;
        const iy = my < 0 ? 0 : my >= height ? height - 1 : my | 0;
        const c = (iy >> 1) * (width >> 1) + (ix >> 1);
        const cb = (data[uAt + c] as number) - 128;
        const cr = (data[vAt + c] as number) - 128;
        const luma = sum * by - y0;
        out[o] = clamp(luma + redOfV * cr);
        out[o + 1] = clamp(luma + greenOfU * cb + greenOfV * cr);
        out[o + 2] = clamp(luma + blueOfU * cb);
      }
    }
    return out;
  };
}

/** Whether no sample of a crop lies outside the frame. */
function liesWithin(crop: CropTransform, size: number, width: number, height: number): boolean {
  return [0, size].every((x) =>
    [0, size].every((y) => {
      const p = toPicture(crop, x, y);
      return p.x >= 0 && p.y >= 0 && p.x < width && p.y < height;
    }),
  );
}

/** Factors from a frame's numbers to red, green and blue. */
function inverseOf(width: number, height: number, color: Colors) {
  const { y0, yr, yg, yb, ub, vr } = fromRgbFactors({ width, height }, color);
  const y1 = 1 / (yr + yg + yb);
  const [kr, kb] = [yr * y1, yb * y1];
  // U is ub / (1 - kb) times what blue has more than brightness; V the same of red.
  const blueOfU = (1 - kb) / ub;
  const redOfV = (1 - kr) / vr;
  const kg = 1 - kr - kb;
  return {
    ...{ y0: y0 * y1, y1, redOfV, blueOfU },
    greenOfU: (-kb * blueOfU) / kg,
    greenOfV: (-kr * redOfV) / kg,
  };
}

function clamp(value: number): number {
  return value <= 0 ? 0 : value >= 255 ? 255 : value;
}
