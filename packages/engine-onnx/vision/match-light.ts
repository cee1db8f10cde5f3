import type { RgbImage } from '@semblance/vision/picture';
import { blur, type Plane, plane, sample, smoothstep } from '@semblance/vision/plane/plane';

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
  const data = drawn.data.slice();
  for (let y = 0, i = 0; y < height; y++) {
    for (let x = 0; x < width; x++, i += 3) {
      for (let c = 0; c < 3; c++) {
        const gain = sample(gains[c] as Plane, (x + 0.5) / cell, (y + 0.5) / cell);
        data[i + c] = Math.min(255, (data[i + c] as number) * Math.exp(share * gain));
      }
    }
  }
  return { width, height, data };
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
  const sure = [...values.data].filter((_, i) => (known.data[i] as number) > 0.5);
  const used = sure.length > 0 ? sure : [...values.data].filter((_, i) => (known.data[i] as number) > 0);
  used.sort((a, b) => a - b);
  return used[Math.floor(used.length / 2)] ?? 0;
}
