import { fromRgbFactors } from '@semblance/media/yuv';
import type { CropSource } from '@semblance/vision/face-mesh';
import type { Colors, Frame } from './frame-part.ts';

/** Most brightness samples for one crop pixel, in each direction. */
const MAX_TAPS = 2;

/** One pixel in frame coordinates, which have 16 bits of fraction. */
const ONE = 1 << 16;

/**
 * Crops directly from the planes of a frame, so that only what the mesh network sees is converted. Brightness is
 * averaged, which removes noise from the mesh. Colour is coarser and less important, so it is not.
 */
export function cropsOfFrame({ width, height, data }: Frame, color: Colors): CropSource {
  const { y0, y1, redOfV, greenOfU, greenOfV, blueOfU } = inverseOf(width, height, color);
  const uAt = width * height;
  const luma: PlanePart = { data, at: 0, width, height };
  const u: PlanePart = { data, at: uAt, width: width >> 1, height: height >> 1 };
  const v: PlanePart = { ...u, at: uAt + uAt / 4 };
  return (crop, size, out = new Float32Array(size * size * 3)) => {
    const taps = Math.min(MAX_TAPS, Math.max(1, Math.round(crop.scale)));
    const cos = Math.cos(crop.angle) * crop.scale;
    const sin = Math.sin(crop.angle) * crop.scale;
    const by = y1 / (taps * taps);
    const [sums, us, vs] = [new Int32Array(size), new Int32Array(size), new Int32Array(size)];
    /**
     * Adds the part of a plane (coarser by `shrink`) that a crop row shows, at offset `dx`, `dy` inside each pixel.
     */
    const add = (
      plane: PlanePart,
      row: number,
      dx: number,
      dy: number,
      shrink: 1 | 2,
      to: Int32Array,
    ): void => {
      const px = crop.originX + cos * dx - sin * (row + dy);
      const py = crop.originY + sin * dx + cos * (row + dy);
      addRow(plane, to, [px / shrink, py / shrink, cos / shrink, sin / shrink]);
    };
    for (let y = 0, o = 0; y < size; y++) {
      for (const acc of [sums, us, vs]) acc.fill(0);
      for (let tap = 0; tap < taps * taps; tap++) {
        add(luma, y, ((tap % taps) + 0.5) / taps, (Math.floor(tap / taps) + 0.5) / taps, 1, sums);
      }
      add(u, y, 0.5, 0.5, 2, us);
      add(v, y, 0.5, 0.5, 2, vs);
      for (let x = 0; x < size; x++, o += 3) {
        const cb = (us[x] as number) - 128;
        const cr = (vs[x] as number) - 128;
        const level = (sums[x] as number) * by - y0;
        const red = level + redOfV * cr;
        const green = level + greenOfU * cb + greenOfV * cr;
        const blue = level + blueOfU * cb;
        out[o] = red <= 0 ? 0 : red >= 255 ? 255 : red;
        out[o + 1] = green <= 0 ? 0 : green >= 255 ? 255 : green;
        out[o + 2] = blue <= 0 ? 0 : blue >= 255 ? 255 : blue;
      }
    }
    return out;
  };
}

interface PlanePart {
  readonly data: Uint8Array;
  readonly at: number;
  readonly width: number;
  readonly height: number;
}

/** Adds the pixels on a line through a plane; first place and step are x and y. Outside, the edge repeats. */
function addRow(
  { data, at, width, height }: PlanePart,
  to: Int32Array,
  [startX, startY, byX, byY]: readonly [number, number, number, number],
): void {
  const count = to.length;
  const [endX, endY] = [startX + byX * (count - 1), startY + byY * (count - 1)];
  const margin = 0.01;
  const within =
    Math.min(startX, endX) > margin &&
    Math.min(startY, endY) > margin &&
    Math.max(startX, endX) < width - margin &&
    Math.max(startY, endY) < height - margin;
  const stepX = Math.round(byX * ONE);
  const stepY = Math.round(byY * ONE);
  let px = Math.floor(startX * ONE);
  let py = Math.floor(startY * ONE);
  if (within) {
    for (let x = 0; x < count; x++, px += stepX, py += stepY) {
      to[x] = (to[x] as number) + (data[at + (py >> 16) * width + (px >> 16)] as number);
    }
    return;
  }
  const [lastX, lastY] = [width - 1, height - 1];
  for (let x = 0; x < count; x++, px += stepX, py += stepY) {
    const ix = px < 0 ? 0 : px >> 16 > lastX ? lastX : px >> 16;
    const iy = py < 0 ? 0 : py >> 16 > lastY ? lastY : py >> 16;
    to[x] = (to[x] as number) + (data[at + iy * width + ix] as number);
  }
}

/** Returns the factors from YUV values to red, green and blue. */
function inverseOf(width: number, height: number, color: Colors) {
  const { y0, yr, yg, yb, ub, vr } = fromRgbFactors({ width, height }, color);
  const y1 = 1 / (yr + yg + yb);
  const [kr, kb] = [yr * y1, yb * y1];
  // U is ub / (1 - kb) times the excess of blue over brightness; V the same for red.
  const blueOfU = (1 - kb) / ub;
  const redOfV = (1 - kr) / vr;
  const kg = 1 - kr - kb;
  return {
    y0: y0 * y1,
    y1,
    redOfV,
    blueOfU,
    greenOfU: (-kb * blueOfU) / kg,
    greenOfV: (-kr * redOfV) / kg,
  };
}
