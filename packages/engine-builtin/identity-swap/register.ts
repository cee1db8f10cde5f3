import { type Plane, plane } from '@semblance/vision/plane/plane';
import { type Affine, compose, IDENTITY } from './geometry.ts';

const ROUNDS = 12;
/** Levels of the pyramid; the finest is the input. */
const LEVELS = 3;
/** Motion, in pixels of the finest level, below which a picture stands still. */
const STILL = 0.06;
/** Brightness difference, in levels, above which pixels count less and less. */
const OUTLIER = 20;

export interface Registration {
  /** From places of `base` to places of `moved`. */
  readonly map: Affine;
  /** Mean difference of the compared pixels, in levels of brightness. */
  readonly residual: number;
}

/**
 * Finds the shift, rotation and scale that turn one picture into another (Lucas and Kanade 1981, on a pyramid, with
 * outliers weighted down).
 * @param known 1 where `base` is compared, 0 elsewhere
 * @param guess start of the search
 */
export function register(base: Plane, moved: Plane, known: Plane, guess: Affine = IDENTITY): Registration {
  const levels = [{ base, moved, known }];
  while (levels.length < LEVELS) {
    const last = levels.at(-1) as (typeof levels)[number];
    if (Math.min(last.base.width, last.base.height) < 40) break;
    levels.push({ base: halved(last.base), moved: halved(last.moved), known: halved(last.known) });
  }
  let map = guess;
  let residual = 0;
  for (let k = levels.length - 1; k >= 0; k--) {
    const level = levels[k] as (typeof levels)[number];
    const scale = 2 ** k;
    for (let round = 0; round < ROUNDS; round++) {
      const step = solve(level, map, scale);
      if (!step) break;
      map = step.map;
      residual = step.residual;
      if (step.moved * scale < (k === 0 ? 0.01 : 0.04)) break;
    }
  }
  return { map, residual };
}

/** Returns whether a map leaves every corner of a picture in place. */
export function standsStill(map: Affine, width: number, height: number): boolean {
  const [a, b, c, d, e, f] = map;
  return [0, width].every((x) =>
    [0, height].every((y) => Math.hypot(a * x + b * y + c - x, d * x + e * y + f - y) < STILL),
  );
}

function solve(
  { base, moved, known }: { base: Plane; moved: Plane; known: Plane },
  map: Affine,
  scale: number,
): { map: Affine; moved: number; residual: number } | undefined {
  const { width, height } = base;
  const [a, b, c, d, e, f] = map;
  // Five unknowns: rotation and scale about the middle, shift, and a change of brightness.
  const n = new Float64Array(25);
  const r = new Float64Array(5);
  const j = new Float64Array(5);
  let [weights, difference] = [0, 0];
  const half = Math.max(width, height) / 2;
  // Every second pixel in each direction is enough on the finest level.
  const skip = scale === 1 && width > 200 ? 2 : 1;
  for (let y = 1; y < height - 1; y += skip) {
    for (let x = 1; x < width - 1; x += skip) {
      const i = y * width + x;
      if ((known.data[i] as number) < 0.9) continue;
      // Maps are in pixels of the finest level.
      const [fx, fy] = [(x + 0.5) * scale, (y + 0.5) * scale];
      const px = (a * fx + b * fy + c) / scale - 0.5;
      const py = (d * fx + e * fy + f) / scale - 0.5;
      const x0 = Math.floor(px);
      const y0 = Math.floor(py);
      if (x0 < 1 || y0 < 1 || x0 >= width - 2 || y0 >= height - 2) continue;
      const at = y0 * width + x0;
      const [u, v] = [px - x0, py - y0];
      const m = moved.data;
      const [m00, m10, m01, m11] = [
        m[at] as number,
        m[at + 1] as number,
        m[at + width] as number,
        m[at + width + 1] as number,
      ];
      const value = (m00 * (1 - u) + m10 * u) * (1 - v) + (m01 * (1 - u) + m11 * u) * v;
      const gx = (m10 - m00) * (1 - v) + (m11 - m01) * v;
      const gy = (m01 - m00) * (1 - u) + (m11 - m10) * u;
      const miss = (base.data[i] as number) - value;
      const w = 1 / (1 + (miss / OUTLIER) ** 2) ** 2;
      const [cx, cy] = [(x + 0.5 - width / 2) / half, (y + 0.5 - height / 2) / half];
      j[0] = gx;
      j[1] = gy;
      j[2] = gx * cx + gy * cy;
      j[3] = -gx * cy + gy * cx;
      j[4] = 8;
      for (let k = 0; k < 5; k++) {
        const wj = w * (j[k] as number);
        r[k] = (r[k] as number) + wj * miss;
        for (let l = k; l < 5; l++) n[k * 5 + l] = (n[k * 5 + l] as number) + wj * (j[l] as number);
      }
      weights += w;
      difference += w * Math.abs(miss);
    }
  }
  if (weights < 60) return undefined;
  for (let k = 0; k < 5; k++) {
    for (let l = 0; l < k; l++) n[k * 5 + l] = n[l * 5 + k] as number;
    n[k * 5 + k] = (n[k * 5 + k] as number) * 1.0001 + 1e-3 * weights;
  }
  const x = solveLinear(n, r);
  const [dx, dy, grow, turn] = [
    x[0] as number,
    x[1] as number,
    (x[2] as number) / half,
    (x[3] as number) / half,
  ];
  const [mx, my] = [(width / 2) * scale, (height / 2) * scale];
  // The map is about the middle of the base.
  const step: Affine = [
    ...([1 + grow, -turn, dx * scale - grow * mx + turn * my] as const),
    ...([turn, 1 + grow, dy * scale - turn * mx - grow * my] as const),
  ];
  const far = Math.hypot(dx, dy) + (Math.abs(grow) + Math.abs(turn)) * half;
  return { map: compose(map, step), moved: far, residual: difference / weights };
}

/** Solves five equations by Gauss elimination; the matrix is positive definite. */
function solveLinear(n: Float64Array, r: Float64Array): Float64Array {
  const size = 5;
  for (let k = 0; k < size; k++) {
    for (let row = k + 1; row < size; row++) {
      const f = (n[row * size + k] as number) / (n[k * size + k] as number);
      for (let l = k; l < size; l++)
        n[row * size + l] = (n[row * size + l] as number) - f * (n[k * size + l] as number);
      r[row] = (r[row] as number) - f * (r[k] as number);
    }
  }
  const x = new Float64Array(size);
  for (let k = size - 1; k >= 0; k--) {
    let sum = r[k] as number;
    for (let l = k + 1; l < size; l++) sum -= (n[k * size + l] as number) * (x[l] as number);
    x[k] = sum / (n[k * size + k] as number);
  }
  return x;
}

function halved({ width, height, data }: Plane): Plane {
  const out = plane(width >> 1, height >> 1);
  for (let y = 0; y < out.height; y++) {
    for (let x = 0; x < out.width; x++) {
      const i = 2 * y * width + 2 * x;
      out.data[y * out.width + x] =
        ((data[i] as number) +
          (data[i + 1] as number) +
          (data[i + width] as number) +
          (data[i + width + 1] as number)) /
        4;
    }
  }
  return out;
}
