import type { RgbImage } from '../vision/picture.ts';
import { blur, type Plane, plane, smoothstep } from './plane.ts';

/** Brightness and two colour differences (ITU-R BT.601, full range, colour centred on 0). */
export function opponent(image: RgbImage): { y: Plane; cb: Plane; cr: Plane } {
  const { width, height, data } = image;
  const out = { y: plane(width, height), cb: plane(width, height), cr: plane(width, height) };
  for (let i = 0, p = 0; p < data.length; i++, p += 3) {
    const r = data[p] as number;
    const g = data[p + 1] as number;
    const b = data[p + 2] as number;
    const y = 0.299 * r + 0.587 * g + 0.114 * b;
    out.y.data[i] = y;
    out.cb.data[i] = 0.564 * (b - y);
    out.cr.data[i] = 0.713 * (r - y);
  }
  return out;
}

/** Smallest deviation that counts as the skin's own variation: brightness, colour. */
const FLOOR_BRIGHTNESS = 13;
const FLOOR_COLOUR = 4.5;
const TERMS = 6;

/**
 * How unlike this face's own skin each pixel is: about 1 at the edge of what skin does here, large on hair, frames,
 * cloth. The model is the person's: brightness and colour as smooth (quadratic) fields over the face, so that light
 * from one side is no fault, fitted robustly (iteratively reweighted least squares, Tukey's biweight; Holland and
 * Welsch 1977) to the pixels that ought to be skin, so that what covers part of it does not count.
 * @param expected 1 where skin ought to be visible (the face without eyes, brows, lips, nostrils)
 */
export function skinDistance(image: RgbImage, expected: Plane): Plane {
  const { width, height } = image;
  const { y, cb, cr } = opponent(image);
  const soft = blur(y, 0.8);
  const channels = [
    { data: soft.data, floor: FLOOR_BRIGHTNESS },
    { data: cb.data, floor: FLOOR_COLOUR },
    { data: cr.data, floor: FLOOR_COLOUR },
  ];
  const inside: number[] = [];
  // A few thousand samples carry the fit as well as all of them.
  const all: number[] = [];
  for (let i = 0; i < expected.data.length; i++) if ((expected.data[i] as number) >= 0.5) all.push(i);
  const step = Math.max(1, Math.floor(all.length / 4000));
  for (let i = 0; i < all.length; i += step) inside.push(all[i] as number);
  const out = plane(width, height);
  if (inside.length < 50) return out;
  const basis = (i: number): number[] => {
    const u = ((i % width) / width) * 2 - 1;
    const v = (Math.floor(i / width) / height) * 2 - 1;
    return [1, u, v, u * v, u * u, v * v];
  };
  const bases = inside.map(basis);
  // All channels share the weights: what is hair in brightness is hair in colour.
  let weights = new Float64Array(inside.length).fill(1);
  const start = medianStart(channels.map(({ data }) => inside.map((i) => data[i] as number)));
  for (let s = 0; s < inside.length; s++) weights[s] = start[s] as number;
  let fits: number[][] = [];
  let scales: number[] = [];
  for (let round = 0; round < 8; round++) {
    fits = channels.map(({ data }) =>
      solveWeighted(
        bases,
        inside.map((i) => data[i] as number),
        weights,
      ),
    );
    const residuals = channels.map(({ data }, c) =>
      inside.map((i, s) => (data[i] as number) - dot(fits[c] as number[], bases[s] as number[])),
    );
    scales = residuals.map((list, c) =>
      Math.max((channels[c] as { floor: number }).floor, 1.4826 * weightedMedianAbs(list, weights)),
    );
    const next = new Float64Array(inside.length);
    for (let s = 0; s < inside.length; s++) {
      let squared = 0;
      for (let c = 0; c < 3; c++)
        squared += (((residuals[c] as number[])[s] as number) / (scales[c] as number)) ** 2;
      const t = squared / 12;
      next[s] = t < 1 ? (1 - t) * (1 - t) : 0;
    }
    weights = next;
  }
  const [fitY = [], fitB = [], fitR = []] = fits;
  const [sY = 1, sB = 1, sR = 1] = scales;
  for (let i = 0; i < out.data.length; i++) {
    const b = basis(i);
    const dy = ((soft.data[i] as number) - dot(fitY, b)) / sY;
    const db = ((cb.data[i] as number) - dot(fitB, b)) / sB;
    const dr = ((cr.data[i] as number) - dot(fitR, b)) / sR;
    // Highlights are skin: brighter counts half as much as darker.
    const bright = dy > 0 ? 0.5 * dy : dy;
    out.data[i] = Math.sqrt(bright * bright + db * db + dr * dr) / 3;
  }
  return out;
}

/** Starting weights: 1 near the medians of all channels. */
function medianStart(channels: number[][]): number[] {
  const medians = channels.map((list) => [...list].sort((a, b) => a - b)[list.length >> 1] as number);
  const deviations = channels.map((list, c) => {
    const sorted = list.map((v) => Math.abs(v - (medians[c] as number))).sort((a, b) => a - b);
    return Math.max(c === 0 ? FLOOR_BRIGHTNESS : FLOOR_COLOUR, 1.4826 * (sorted[list.length >> 1] as number));
  });
  return (channels[0] as number[]).map((_, s) => {
    const squared = channels.reduce((sum, list, c) => {
      const d = ((list[s] as number) - (medians[c] as number)) / (deviations[c] as number);
      return sum + d * d;
    }, 0);
    return 1 - smoothstep(6, 16, squared);
  });
}

function dot(a: readonly number[], b: readonly number[]): number {
  let sum = 0;
  for (let k = 0; k < TERMS; k++) sum += (a[k] as number) * (b[k] as number);
  return sum;
}

function weightedMedianAbs(values: readonly number[], weights: Float64Array): number {
  const kept = values.filter((_, i) => (weights[i] as number) > 0.2).map(Math.abs);
  if (kept.length === 0) return 0;
  kept.sort((a, b) => a - b);
  return kept[kept.length >> 1] as number;
}

/** Weighted least squares over the basis with a little ridge, by Gaussian elimination. */
function solveWeighted(bases: number[][], values: readonly number[], weights: Float64Array): number[] {
  const n = TERMS;
  const m = Array.from({ length: n }, () => new Float64Array(n + 1));
  let total = 0;
  for (let s = 0; s < values.length; s++) {
    const w = weights[s] as number;
    if (w === 0) continue;
    total += w;
    const b = bases[s] as number[];
    for (let r = 0; r < n; r++) {
      const row = m[r] as Float64Array;
      const wr = w * (b[r] as number);
      for (let c = 0; c < n; c++) row[c] = (row[c] as number) + wr * (b[c] as number);
      row[n] = (row[n] as number) + wr * (values[s] as number);
    }
  }
  for (let r = 1; r < n; r++) {
    const row = m[r] as Float64Array;
    row[r] = (row[r] as number) + 0.02 * total;
  }
  for (let p = 0; p < n; p++) {
    const pivotRow = m[p] as Float64Array;
    const pivot = Math.abs(pivotRow[p] as number) > 1e-9 ? (pivotRow[p] as number) : 1e-9;
    for (let r = 0; r < n; r++) {
      if (r === p) continue;
      const row = m[r] as Float64Array;
      const factor = (row[p] as number) / pivot;
      for (let c = p; c <= n; c++) row[c] = (row[c] as number) - factor * (pivotRow[c] as number);
    }
  }
  return Array.from({ length: n }, (_, r) => {
    const row = m[r] as Float64Array;
    return (row[n] as number) / (Math.abs(row[r] as number) > 1e-9 ? (row[r] as number) : 1e-9);
  });
}
