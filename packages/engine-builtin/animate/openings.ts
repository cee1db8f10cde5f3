import type { BytePlane } from './raster.ts';

/** The planes of a frame; chroma has half the size in each direction. */
export interface Planes {
  readonly y: BytePlane;
  readonly u: BytePlane;
  readonly v: BytePlane;
}

/** Writes the colour (Y, U, V) at a place of the frame. */
export type Shader = (x: number, y: number, out: Float32Array) => void;

const SUBLINES = 4;
let coverage = new Float32Array(0);
const colour = new Float32Array(3);

/** Paints a small area with smooth edges. @param outline x and y in turn, in pixels of the frame */
export function paintOpening(planes: Planes, outline: Float32Array, shade: Shader): void {
  const { width, height } = planes.y;
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < outline.length; i += 2) {
    left = Math.min(left, outline[i] as number);
    right = Math.max(right, outline[i] as number);
    top = Math.min(top, outline[i + 1] as number);
    bottom = Math.max(bottom, outline[i + 1] as number);
  }
  // Even bounds keep chroma blocks complete.
  const x0 = Math.max(0, Math.floor(left) & ~1);
  const y0 = Math.max(0, Math.floor(top) & ~1);
  const x1 = Math.min(width, (Math.ceil(right) + 1) & ~1);
  const y1 = Math.min(height, (Math.ceil(bottom) + 1) & ~1);
  const w = x1 - x0;
  const h = y1 - y0;
  if (w <= 0 || h <= 0) return;
  if (coverage.length < w * h) coverage = new Float32Array(w * h);
  const cover = coverage.subarray(0, w * h).fill(0);
  coverPolygon(cover, w, h, outline, x0, y0);
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const c = cover[y * w + x] as number;
      if (c < 0.004) continue;
      shade(x0 + x + 0.5, y0 + y + 0.5, colour);
      mix(planes.y, x0 + x, y0 + y, colour[0] as number, c);
    }
  }
  for (let y = 0; y < h; y += 2) {
    for (let x = 0; x < w; x += 2) {
      const i = y * w + x;
      const c =
        ((cover[i] as number) +
          (cover[i + 1] as number) +
          (cover[i + w] as number) +
          (cover[i + w + 1] as number)) /
        4;
      if (c < 0.004) continue;
      shade(x0 + x + 1, y0 + y + 1, colour);
      mix(planes.u, (x0 + x) >> 1, (y0 + y) >> 1, colour[1] as number, c);
      mix(planes.v, (x0 + x) >> 1, (y0 + y) >> 1, colour[2] as number, c);
    }
  }
}

function mix(plane: BytePlane, x: number, y: number, value: number, share: number): void {
  const i = y * plane.width + x;
  const under = plane.data[i] as number;
  const mixed = under + (value - under) * share + 0.5;
  plane.data[i] = mixed < 0 ? 0 : mixed > 255 ? 255 : mixed;
}

/** Adds the share of each pixel inside the polygon, exact along a row. */
function coverPolygon(
  cover: Float32Array,
  w: number,
  h: number,
  outline: Float32Array,
  x0: number,
  y0: number,
): void {
  const corners = outline.length / 2;
  const crossings: number[] = [];
  for (let line = 0; line < h * SUBLINES; line++) {
    const at = y0 + (line + 0.5) / SUBLINES;
    crossings.length = 0;
    for (let i = 0; i < corners; i++) {
      const j = i + 1 < corners ? i + 1 : 0;
      const ya = outline[i * 2 + 1] as number;
      const yb = outline[j * 2 + 1] as number;
      if (ya <= at === yb <= at) continue;
      const xa = outline[i * 2] as number;
      crossings.push(xa + ((at - ya) / (yb - ya)) * ((outline[j * 2] as number) - xa) - x0);
    }
    crossings.sort((a, b) => a - b);
    const row = Math.floor(line / SUBLINES) * w;
    for (let c = 0; c + 1 < crossings.length; c += 2) {
      const from = Math.max(0, crossings[c] as number);
      const to = Math.min(w, crossings[c + 1] as number);
      for (let x = Math.floor(from); x < to; x++) {
        const part = Math.min(to, x + 1) - Math.max(from, x);
        cover[row + x] = (cover[row + x] as number) + part / SUBLINES;
      }
    }
  }
}

/** x' = a·x + b·y + c, y' = d·x + e·y + f. */
export type Affine = readonly [number, number, number, number, number, number];

/** Returns the least-squares affine map between two point sets; x and y in turn. */
export function fitAffine(from: Float32Array, to: Float32Array): Affine {
  const n = from.length / 2;
  let [mx, my, ux, uy] = [0, 0, 0, 0];
  for (let i = 0; i < n; i++) {
    mx += (from[i * 2] as number) / n;
    my += (from[i * 2 + 1] as number) / n;
    ux += (to[i * 2] as number) / n;
    uy += (to[i * 2 + 1] as number) / n;
  }
  let [xx, xy, yy, xu, yu, xv, yv] = [1e-6, 0, 1e-6, 0, 0, 0, 0];
  for (let i = 0; i < n; i++) {
    const x = (from[i * 2] as number) - mx;
    const y = (from[i * 2 + 1] as number) - my;
    const u = (to[i * 2] as number) - ux;
    const v = (to[i * 2 + 1] as number) - uy;
    xx += x * x;
    xy += x * y;
    yy += y * y;
    xu += x * u;
    yu += y * u;
    xv += x * v;
    yv += y * v;
  }
  const det = xx * yy - xy * xy;
  const a = (xu * yy - yu * xy) / det;
  const b = (yu * xx - xu * xy) / det;
  const d = (xv * yy - yv * xy) / det;
  const e = (yv * xx - xv * xy) / det;
  return [a, b, ux - a * mx - b * my, d, e, uy - d * mx - e * my];
}
