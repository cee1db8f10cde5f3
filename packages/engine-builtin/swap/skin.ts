import type { RgbImage } from '@semblance/vision/picture';
import { blur, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { select } from '@semblance/vision/plane/select';

/** Converts to brightness and two colour differences (ITU-R BT.601, full range, colour centred on 0). */
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

/** Smallest deviations that count as natural variation of skin: brightness, colour. */
const FLOOR_BRIGHTNESS = 13;
const FLOOR_COLOUR = 4.5;
/** Brightness of skin in a well exposed picture, for which the floors hold. */
const USUAL_BRIGHTNESS = 140;
const TERMS = 6;
const SAMPLES = 1200;
const ROUNDS = 6;

/** Comparison of the pixels of a face with its skin. */
export interface SkinLikeness {
  /** About 1 at the limit of this skin's variation, large on other things. */
  readonly distance: Plane;
  /** Brightness relative to the expected brightness of skin at this place. */
  readonly shade: Plane;
}

/**
 * Returns how unlike this face's own skin each pixel is: about 1 at the limit of the skin's variation, large on
 * hair, frames and cloth. The model belongs to the person: brightness and colour are smooth (quadratic) fields over
 * the face, so light from one side is no deviation. They are fitted to the pixels that should be skin, robustly
 * against objects that cover part of it (iteratively reweighted least squares with Tukey's biweight; Holland and
 * Welsch 1977).
 * @param expected 1 where skin should be visible (the face without eyes, brows, lips, nostrils)
 * @param judged 1 where the distance is wanted; it may reach a little beyond `expected`
 */
export function skinDistance(image: RgbImage, expected: Plane, judged: Plane): SkinLikeness {
  const { width, height } = image;
  const { y, cb, cr } = opponent(image);
  const soft = blur(y, 0.8);
  const all: number[] = [];
  for (let i = 0; i < expected.data.length; i++) if ((expected.data[i] as number) >= 0.5) all.push(i);
  // Some hundreds of samples give the same fit as all of them.
  const step = Math.max(1, Math.floor(all.length / SAMPLES));
  const inside = Int32Array.from(
    { length: Math.floor(all.length / step) },
    (_, s) => all[s * step] as number,
  );
  const out = plane(width, height);
  const shade = plane(width, height, 1);
  if (inside.length < 50) return { distance: out, shade };
  // In a dark picture all differences are smaller.
  const usual = median(Float64Array.from(inside, (i) => soft.data[i] as number));
  const exposure = Math.min(1, Math.max(0.3, usual / USUAL_BRIGHTNESS));
  const floors = [FLOOR_BRIGHTNESS * exposure, FLOOR_COLOUR * exposure, FLOOR_COLOUR * exposure] as const;
  const channels = [soft, cb, cr];
  const bases = new Float64Array(inside.length * TERMS);
  for (const [s, i] of inside.entries()) writeBasis(bases, s * TERMS, i, width, height);
  const values = channels.map(({ data }) => Float64Array.from(inside, (i) => data[i] as number));
  // All channels share the weights: a pixel that is hair in brightness is hair in colour.
  let weights = medianStart(values, floors);
  let fits: Float64Array[] = [];
  let scales: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    fits = solveWeighted(bases, values, weights);
    const residuals = values.map((list, c) => {
      const fit = fits[c] as Float64Array;
      return list.map((value, s) => value - dot(fit, bases, s * TERMS));
    });
    scales = residuals.map((list, c) => Math.max(floors[c] as number, 1.4826 * medianAbs(list, weights)));
    weights = weights.map((_, s) => {
      let squared = 0;
      for (let c = 0; c < 3; c++)
        squared += ((residuals[c] as Float64Array)[s] as number) ** 2 / (scales[c] as number) ** 2;
      const t = squared / 12;
      return t < 1 ? (1 - t) * (1 - t) : 0;
    });
  }
  const [fitY, fitB, fitR] = fits as [Float64Array, Float64Array, Float64Array];
  const [sY = 1, sB = 1, sR = 1] = scales;
  const basis = new Float64Array(TERMS);
  for (let i = 0; i < out.data.length; i++) {
    if ((judged.data[i] as number) < 0.5) continue;
    writeBasis(basis, 0, i, width, height);
    const skinLevel = Math.max(0, dot(fitY, basis, 0));
    shade.data[i] = ((soft.data[i] as number) + 3) / (skinLevel + 3);
    const dy = ((soft.data[i] as number) - skinLevel) / sY;
    const db = ((cb.data[i] as number) - dot(fitB, basis, 0)) / sB;
    const dr = ((cr.data[i] as number) - dot(fitR, basis, 0)) / sR;
    // Highlights are skin, so brighter pixels count half as much as darker ones.
    const bright = dy > 0 ? 0.5 * dy : dy;
    out.data[i] = Math.sqrt(bright * bright + db * db + dr * dr) / 3;
  }
  return { distance: out, shade };
}

/** Writes 1, u, v, uv, u², v², with u and v from -1 to 1 across the image. */
function writeBasis(target: Float64Array, at: number, index: number, width: number, height: number): void {
  const u = ((index % width) / width) * 2 - 1;
  const v = (Math.floor(index / width) / height) * 2 - 1;
  target[at] = 1;
  target[at + 1] = u;
  target[at + 2] = v;
  target[at + 3] = u * v;
  target[at + 4] = u * u;
  target[at + 5] = v * v;
}

function median(values: Float64Array): number {
  return select(values.slice(), values.length >> 1);
}

/** Returns initial weights: 1 near the medians of all channels. */
function medianStart(channels: readonly Float64Array[], floors: readonly number[]): Float64Array {
  const squared = new Float64Array((channels[0] as Float64Array).length);
  channels.forEach((list, c) => {
    const middle = median(list);
    const deviation = Math.max(floors[c] as number, 1.4826 * median(list.map((v) => Math.abs(v - middle))));
    list.forEach((value, s) => {
      squared[s] = (squared[s] as number) + ((value - middle) / deviation) ** 2;
    });
  });
  return squared.map((value) => 1 - smoothstep(6, 16, value));
}

function dot(fit: Float64Array, bases: Float64Array, at: number): number {
  let sum = 0;
  for (let k = 0; k < TERMS; k++) sum += (fit[k] as number) * (bases[at + k] as number);
  return sum;
}

function medianAbs(values: Float64Array, weights: Float64Array): number {
  const kept = new Float64Array(values.length);
  let count = 0;
  for (let i = 0; i < values.length; i++) {
    if ((weights[i] as number) > 0.2) kept[count++] = Math.abs(values[i] as number);
  }
  return count > 0 ? select(kept.subarray(0, count), count >> 1) : 0;
}

/**
 * Solves weighted least squares for several channels that share their weights, by Gauss-Jordan elimination, with a
 * small ridge on all terms except the constant.
 */
function solveWeighted(
  bases: Float64Array,
  channels: readonly Float64Array[],
  weights: Float64Array,
): Float64Array[] {
  const n = TERMS;
  const columns = n + channels.length;
  const m = new Float64Array(n * columns);
  let total = 0;
  for (let s = 0; s < weights.length; s++) {
    const w = weights[s] as number;
    if (w === 0) continue;
    total += w;
    for (let r = 0; r < n; r++) {
      const wr = w * (bases[s * n + r] as number);
      const o = r * columns;
      for (let c = 0; c < n; c++) m[o + c] = (m[o + c] as number) + wr * (bases[s * n + c] as number);
      for (let k = 0; k < channels.length; k++) {
        m[o + n + k] = (m[o + n + k] as number) + wr * ((channels[k] as Float64Array)[s] as number);
      }
    }
  }
  for (let r = 1; r < n; r++) m[r * columns + r] = (m[r * columns + r] as number) + 0.02 * total;
  for (let p = 0; p < n; p++) {
    const pivot = Math.max(m[p * columns + p] as number, 1e-9);
    for (let r = 0; r < n; r++) {
      if (r === p) continue;
      const factor = (m[r * columns + p] as number) / pivot;
      for (let c = p; c < columns; c++) {
        m[r * columns + c] = (m[r * columns + c] as number) - factor * (m[p * columns + c] as number);
      }
    }
  }
  return channels.map((_, k) =>
    Float64Array.from({ length: n }, (_, r) => {
      return (m[r * columns + n + k] as number) / Math.max(m[r * columns + r] as number, 1e-9);
    }),
  );
}
