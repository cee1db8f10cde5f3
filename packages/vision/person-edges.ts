import type { Picture } from '@semblance/engine-api/picture';
import { colourPlane } from './colour-guide.ts';
import type { PersonMask } from './person.ts';
import { maskInPicture } from './person-mask.ts';
import { squareCrop, toPicture } from './picture.ts';
import { blur, type Plane, plane, smoothstep } from './plane/plane.ts';
import { withScratch } from './plane/scratch.ts';

/** How far around a pixel the mask and the colours are compared, in pixels of the mask. */
const REACH = 1.2;
/** Variance of a colour that still counts as none. */
const NOISE = 30;
/** What is further from 0 and 1 than this, blurred over the reach, is drawn anew; the rest stays as it is. */
const SETTLED = 0.02;
/** Coverage that the filter gives to the two sides of an edge that it finds; it is spread to 0 and 1. */
const [NONE, WHOLE] = [0.12, 0.88];

interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/**
 * A person's mask laid into its picture as {@link maskInPicture} does, but with edges that run where the picture's run:
 * a guided filter by colour (He et al. 2010; in its fast form, He and Sun 2015) around the edge of the mask, whose own
 * pixels are several of the picture's wide.
 */
export function refineMask(mask: PersonMask, picture: Picture): Uint8Array {
  const out = new Uint8Array(picture.width * picture.height);
  const box = extent(mask, picture);
  if (box.width > 0 && box.height > 0) withScratch(() => refineBox(mask, picture, box, out));
  return out;
}

function refineBox(mask: PersonMask, picture: Picture, box: Box, out: Uint8Array): void {
  const { region } = mask;
  const pitch = region.size / mask.side;
  const step = Math.max(1, Math.round(pitch));
  const guide = colourGrid(picture, box, step);
  const { width, height } = guide[0];
  const coarse = plane(width, height);
  const place = { x: (region.x - box.left) / step, y: (region.y - box.top) / step, size: region.size / step };
  maskInPicture({ ...mask, region: { ...place, angle: region.angle } }, width, height).forEach((value, i) => {
    coarse.data[i] = value / 255;
  });
  const reach = Math.max(1, (REACH * pitch) / step);
  const { slopes, offset } = colourPlane(guide, coarse, reach, NOISE);
  const [a, b, c] = [slopes[0].data, slopes[1].data, slopes[2].data];
  const near = blur(coarse, 2 * reach);
  const { data, channels, unit, green, blue } = samplesOf(picture);
  const columns = interpolation(box.width, width, step);
  const rows = interpolation(box.height, height, step);
  for (let y = 0; y < box.height; y++) {
    const { low: above, high: below, share: fy } = rows[y] as Neighbours;
    for (let x = 0; x < box.width; x++) {
      const { low, high, share: fx } = columns[x] as Neighbours;
      const settled = near.data[(fy < 0.5 ? above : below) * width + (fx < 0.5 ? low : high)] as number;
      if (settled < SETTLED) continue;
      const o = (box.top + y) * picture.width + box.left + x;
      if (settled > 1 - SETTLED) {
        out[o] = 255;
        continue;
      }
      const [i00, i01, i10, i11] = [
        above * width + low,
        above * width + high,
        below * width + low,
        below * width + high,
      ];
      const at = (field: Float32Array): number => {
        const upper = (field[i00] as number) * (1 - fx) + (field[i01] as number) * fx;
        const lower = (field[i10] as number) * (1 - fx) + (field[i11] as number) * fx;
        return upper + (lower - upper) * fy;
      };
      const i = o * channels;
      const value =
        at(a) * (data[i] as number) * unit +
        at(b) * (data[i + green] as number) * unit +
        at(c) * (data[i + blue] as number) * unit +
        at(offset.data);
      out[o] = 255 * smoothstep(NONE, WHOLE, value) + 0.5;
    }
  }
}

/** The part of the picture where the mask is not empty, with room for edges that lie further out. */
function extent({ data, side, region }: PersonMask, picture: Picture): Box {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  const crop = squareCrop(region, region.size, region.angle, side);
  for (let v = 0; v < side; v++) {
    const row = data.subarray(v * side, (v + 1) * side);
    const first = row.findIndex((value) => value > 0);
    if (first < 0) continue;
    const last = row.findLastIndex((value) => value > 0);
    for (const u of [first - 2 * REACH, last + 1 + 2 * REACH]) {
      for (const w of [v - 2 * REACH, v + 1 + 2 * REACH]) {
        const { x, y } = toPicture(crop, u, w);
        left = Math.min(left, x);
        right = Math.max(right, x);
        top = Math.min(top, y);
        bottom = Math.max(bottom, y);
      }
    }
  }
  left = Math.max(0, Math.floor(left));
  top = Math.max(0, Math.floor(top));
  return {
    left,
    top,
    width: Math.min(picture.width, Math.ceil(right)) - left,
    height: Math.min(picture.height, Math.ceil(bottom)) - top,
  };
}

/** How to read a picture's samples as 0–255: the factor, and where green and blue lie (grey: with red). */
function samplesOf({ data, channels }: Picture) {
  return {
    data,
    channels,
    unit: data instanceof Uint16Array ? 1 / 257 : 1,
    green: channels >= 3 ? 1 : 0,
    blue: channels >= 3 ? 2 : 0,
  };
}

/** Mean red, green and blue of each step × step pixels of a part of the picture. */
function colourGrid(picture: Picture, box: Box, step: number): [Plane, Plane, Plane] {
  const { data, channels, unit, green, blue } = samplesOf(picture);
  const [width, height] = [Math.ceil(box.width / step), Math.ceil(box.height / step)];
  const grid: [Plane, Plane, Plane] = [plane(width, height), plane(width, height), plane(width, height)];
  for (let y = 0; y < height; y++) {
    const [top, bottom] = [y * step, Math.min(box.height, (y + 1) * step)];
    for (let x = 0; x < width; x++) {
      const [left, right] = [x * step, Math.min(box.width, (x + 1) * step)];
      let [r, g, b] = [0, 0, 0];
      for (let v = top; v < bottom; v++) {
        let i = ((box.top + v) * picture.width + box.left + left) * channels;
        for (let u = left; u < right; u++, i += channels) {
          r += data[i] as number;
          g += data[i + green] as number;
          b += data[i + blue] as number;
        }
      }
      const scale = unit / ((bottom - top) * (right - left));
      const o = y * width + x;
      grid[0].data[o] = r * scale;
      grid[1].data[o] = g * scale;
      grid[2].data[o] = b * scale;
    }
  }
  return grid;
}

interface Neighbours {
  readonly low: number;
  readonly high: number;
  readonly share: number;
}

/** Between which cells each pixel of a line lies, and how near to the second. */
function interpolation(pixels: number, cells: number, step: number): Neighbours[] {
  return Array.from({ length: pixels }, (_, i) => {
    const at = Math.min(cells - 1, Math.max(0, (i + 0.5) / step - 0.5));
    const low = Math.floor(at);
    return { low, high: Math.min(cells - 1, low + 1), share: at - low };
  });
}
