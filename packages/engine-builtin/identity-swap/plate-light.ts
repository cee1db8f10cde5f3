import type { RgbImage } from '@semblance/vision/picture';
import { pushPull } from '@semblance/vision/plane/fill';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import type { Planes } from '../animate/openings.ts';
import type { Affine } from './geometry.ts';

/** Size of the cells in which light is compared, in frame pixels. */
export const LIGHT_CELL = 8;
/** Number of cells around a hole whose light is compared. */
const AROUND = 6;
/** Distance from a person who stays, in chroma pixels, from which a pixel shows the background. */
const CLEAR = 4;

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/** A plate, and how well each of its chroma pixels is known; below 1 means unknown. */
export interface Known {
  readonly planes: Planes;
  readonly quality: Float32Array;
}

/**
 * Returns on a coarse grid around the hole: colours for places that were never seen, and the brightness of this
 * frame relative to the plate.
 */
export function compareLight(
  frame: Planes,
  { planes: plate, quality }: Known,
  hole: Plane,
  { back, box, rest }: { back: Affine; box: Box; rest: Plane | undefined },
): { fill: RgbImage; light: RgbImage } {
  const step = LIGHT_CELL / 2;
  const [width, half, rows] = [frame.y.width, hole.width, hole.height];
  const [w, h] = [Math.ceil(half / step), Math.ceil(rows / step)];
  const fill = { width: w, height: h, data: new Float32Array(w * h * 3) };
  const light = { width: w, height: h, data: new Float32Array(w * h * 3) };
  const seen = plane(w, h);
  const both = plane(w, h);
  const [a, b, c, d, e, f] = back;
  const cells = {
    left: Math.max(0, Math.floor(box.left / step) - AROUND),
    top: Math.max(0, Math.floor(box.top / step) - AROUND),
    right: Math.min(w, Math.ceil(box.right / step) + AROUND),
    bottom: Math.min(h, Math.ceil(box.bottom / step) + AROUND),
  };
  for (let gy = cells.top; gy < cells.bottom; gy++) {
    for (let gx = cells.left; gx < cells.right; gx++) {
      let [l, u, v, n] = [0, 0, 0, 0];
      let [dl, du, dv, m] = [0, 0, 0, 0];
      // Every second chroma pixel in each direction is enough for a cell.
      for (let y = gy * step; y < Math.min(rows, (gy + 1) * step); y += 2) {
        for (let x = gx * step; x < Math.min(half, (gx + 1) * step); x += 2) {
          const i = y * half + x;
          const px = (a * (x + 0.5) + b * (y + 0.5) + c / 2) | 0;
          const py = (d * (x + 0.5) + e * (y + 0.5) + f / 2) | 0;
          const inside = px >= 0 && py >= 0 && px < half && py < rows;
          const j = py * half + px;
          const isKnown = inside && (quality[j] as number) >= 1;
          const open = (hole.data[i] as number) < 0.01 && (!rest || (rest.data[i] as number) > CLEAR);
          if (rest && !open && (hole.data[i] as number) < 0.01) continue;
          const plateAt = 2 * (py * width + px);
          if (open) {
            const here = frame.y.data[2 * (y * width + x)] as number;
            l += here;
            u += frame.u.data[i] as number;
            v += frame.v.data[i] as number;
            n++;
            if (!isKnown) continue;
            dl += here - (plate.y.data[plateAt] as number);
            du += (frame.u.data[i] as number) - (plate.u.data[j] as number);
            dv += (frame.v.data[i] as number) - (plate.v.data[j] as number);
            m++;
          } else if (isKnown) {
            l += plate.y.data[plateAt] as number;
            u += plate.u.data[j] as number;
            v += plate.v.data[j] as number;
            n++;
          }
        }
      }
      const g = gy * w + gx;
      const all = (step / 2) ** 2;
      seen.data[g] = Math.min(1, n / all);
      both.data[g] = Math.min(1, m / all);
      if (n > 0) fill.data.set([l / n, u / n, v / n], g * 3);
      if (m > 0) light.data.set([dl / m, du / m, dv / m], g * 3);
    }
  }
  // When the plate is known nowhere around, there is nothing to compare.
  both.data[0] = Math.max(both.data[0] as number, 1e-3);
  return { fill: pushPull(fill, seen), light: pushPull(light, both) };
}

/** Interpolates a colour of a coarse image between its cells. */
export function colourAt(image: RgbImage, x: number, y: number, out: Float32Array): void {
  const { width, height, data } = image;
  const px = Math.min(width - 1, Math.max(0, x - 0.5));
  const py = Math.min(height - 1, Math.max(0, y - 0.5));
  const [x0, y0] = [px | 0, py | 0];
  const [x1, y1] = [Math.min(width - 1, x0 + 1), Math.min(height - 1, y0 + 1)];
  const [u, v] = [px - x0, py - y0];
  for (let k = 0; k < 3; k++) {
    const upper =
      (data[(y0 * width + x0) * 3 + k] as number) * (1 - u) + (data[(y0 * width + x1) * 3 + k] as number) * u;
    const lower =
      (data[(y1 * width + x0) * 3 + k] as number) * (1 - u) + (data[(y1 * width + x1) * 3 + k] as number) * u;
    out[k] = upper + (lower - upper) * v;
  }
}
