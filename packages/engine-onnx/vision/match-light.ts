import type { RgbImage } from '@semblance/vision/picture';
import { blur, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';

/** Cells of the light grid across a crop; light is smooth. */
const CELLS = 64;
/**
 * Widths of the neighbourhoods in which two lights are compared, as shares of the crop: a fifth of a face inside it,
 * and less at its edge, where a difference would be a seam.
 */
const REACH = 0.1;
const EDGE_REACH = 0.03;
/** Shares of the wide neighbourhood that are known at the edge of a face and inside it. */
const INSIDE = [0.5, 0.9] as const;
/** Levels that are added to both sides of a ratio, so that black is no infinite ratio. */
const FLOOR = 8;
/** Largest factor of light, and largest factor by which one place may differ from the whole face, as logarithms. */
const MOST = Math.log(3);
const MOST_LOCAL = Math.log(1.5);
/** Weight of the whole face's light where few pixels are known. */
const PRIOR = 0.02;

/**
 * Gives a drawn face the light of the picture that it replaces: each colour is multiplied by the ratio of the
 * picture to the drawing, averaged over the neighbourhood (normalized convolution, Knutsson and Westin 1993, of
 * logarithms). Features stay as drawn, because a feature is smaller than that. A beard or hair that only one of both
 * has differs more from the whole face than light does, so it counts as the limit of that.
 * @param base the crop of the picture as it was, of the same size
 * @param weight how much a place of the crop counts, over the crop's own pixels, 0 to 1
 * @param share how far the light is matched, 0 to 1
 */
export function matchedLight(
  drawn: RgbImage,
  base: RgbImage,
  weight: (x: number, y: number) => number,
  share: number,
): RgbImage {
  const { width, height } = drawn;
  const cell = Math.max(1, Math.floor(width / CELLS));
  const [across, down] = [Math.ceil(width / cell), Math.ceil(height / cell)];
  const known = plane(across, down);
  for (let y = 0; y < down; y++)
    for (let x = 0; x < across; x++) known.data[y * across + x] = weight((x + 0.5) * cell, (y + 0.5) * cell);
  const total = known.data.reduce((sum, value) => sum + value, 0);
  if (total < 1e-3 || share === 0) return drawn;
  const gains = [0, 1, 2].map((c) => gainOf(logRatio(drawn, base, cell, c), known));
  return { width, height, data: multiplied(drawn, gains, cell, share) };
}

/** Returns the samples of a drawing, each multiplied by the exponential of its share of the gain there. */
function multiplied(
  { width, height, data }: RgbImage,
  gains: readonly Plane[],
  cell: number,
  share: number,
): Float32Array {
  const out = new Float32Array(data.length);
  for (const [c, gain] of gains.entries()) {
    const above = new Float64Array(gain.width);
    const below = new Float64Array(gain.width);
    for (let y = 0; y < height; y++) {
      const py = Math.min(gain.height - 1, Math.max(0, (y + 0.5) / cell - 0.5));
      const y0 = py | 0;
      const fy = py - y0;
      above.set(gain.data.subarray(y0 * gain.width, (y0 + 1) * gain.width));
      const y1 = y0 + 1 < gain.height ? y0 + 1 : y0;
      below.set(gain.data.subarray(y1 * gain.width, (y1 + 1) * gain.width));
      for (let x = 0, i = y * width * 3 + c; x < width; x++, i += 3) {
        const px = Math.min(gain.width - 1, Math.max(0, (x + 0.5) / cell - 0.5));
        const x0 = px | 0;
        const x1 = x0 + 1 < gain.width ? x0 + 1 : x0;
        const fx = px - x0;
        const upper = (above[x0] as number) * (1 - fx) + (above[x1] as number) * fx;
        const lower = (below[x0] as number) * (1 - fx) + (below[x1] as number) * fx;
        const value = (data[i] as number) * Math.exp(share * (upper * (1 - fy) + lower * fy));
        out[i] = value < 255 ? value : 255;
      }
    }
  }
  return out;
}

/** Returns the logarithm of the ratio of base to drawing in one colour, cell by cell. */
function logRatio(drawn: RgbImage, base: RgbImage, cell: number, colour: number): Plane {
  const means = [drawn, base].map((image) => cellMeans(image, cell, colour));
  const [ours, theirs] = means as [Plane, Plane];
  for (let i = 0; i < theirs.data.length; i++)
    theirs.data[i] = Math.log(((theirs.data[i] as number) + FLOOR) / ((ours.data[i] as number) + FLOOR));
  return theirs;
}

function cellMeans({ width, height, data }: RgbImage, cell: number, colour: number): Plane {
  const out = plane(Math.ceil(width / cell), Math.ceil(height / cell));
  const counts = new Float32Array(out.data.length);
  for (let y = 0; y < height; y++) {
    const row = Math.floor(y / cell) * out.width;
    for (let x = 0; x < width; x++) {
      const i = row + Math.floor(x / cell);
      out.data[i] = (out.data[i] as number) + (data[(y * width + x) * 3 + colour] as number);
      counts[i] = (counts[i] as number) + 1;
    }
  }
  for (let i = 0; i < counts.length; i++) out.data[i] = (out.data[i] as number) / (counts[i] as number);
  return out;
}

/** Returns the smooth logarithm of the gain. */
function gainOf(ratio: Plane, known: Plane): Plane {
  const whole = median(ratio, known);
  const weighted = plane(ratio.width, ratio.height);
  for (let i = 0; i < weighted.data.length; i++) {
    const beside = (ratio.data[i] as number) - whole;
    weighted.data[i] = Math.min(MOST_LOCAL, Math.max(-MOST_LOCAL, beside)) * (known.data[i] as number);
  }
  const [wide, narrow] = [REACH, EDGE_REACH].map((reach) => ({
    sum: blur(weighted, reach * ratio.width),
    known: blur(known, reach * ratio.width),
  })) as [Mean, Mean];
  const out = plane(ratio.width, ratio.height);
  for (let i = 0; i < out.data.length; i++) {
    const inside = smoothstep(INSIDE[0], INSIDE[1], wide.known.data[i] as number);
    const gain = whole + inside * meanAt(wide, i) + (1 - inside) * meanAt(narrow, i);
    out.data[i] = Math.min(MOST, Math.max(-MOST, gain));
  }
  return out;
}

/** A weighted mean over a neighbourhood. */
interface Mean {
  readonly sum: Plane;
  readonly known: Plane;
}

function meanAt({ sum, known }: Mean, i: number): number {
  return (sum.data[i] as number) / ((known.data[i] as number) + PRIOR);
}

/** Returns the median of the values that are known. */
function median(values: Plane, known: Plane): number {
  const above = (least: number) => values.data.filter((_, i) => (known.data[i] as number) > least);
  const sure = above(0.5);
  // The numbers of a typed array are sorted as numbers, several times as fast.
  const used = (sure.length > 0 ? sure : above(0)).sort();
  return used[Math.floor(used.length / 2)] ?? 0;
}
