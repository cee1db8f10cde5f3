import { type RgbImage, sampleRgb } from '@semblance/vision/picture';
import { smoothstep } from '@semblance/vision/plane/plane';
import { LIP_RINGS } from './feature-shapes.ts';
import { luma } from './light.ts';

/** Writes the colour at a place: brightness, and two colour differences, in levels. */
export type ColourAt = (x: number, y: number, out: Float32Array) => void;

/** Columns of the lower lip between the corners of the mouth, in the order of LIPS_OUTER. */
const COLUMNS = [1, 2, 3, 4, 5, 6, 7, 8, 9] as const;
/** Shares of a move of the inner edge that the rings of the lips take, from the outer to the inner one. */
const RING_SHARES = [0, 0.4, 0.8, 1] as const;
/** Openings of a mouth, as shares of the face width, at which its edge is not moved, and at which it is moved fully. */
const OPEN = [0.012, 0.025] as const;
/** Farthest move, as shares of the face width and of the lip's thickness, and step of the search. */
const FARTHEST = 0.035;
const OF_LIP = 0.6;
const STEP = 0.003;
/** Place inside the mouth whose colour is compared, as a share of the face width. */
const INSIDE = 0.008;
/** Least difference between inside and lip, in levels, and the share of it that still is lip. */
const LEAST_CONTRAST = 18;
const LIP = 0.5;

/**
 * Returns the mesh with the inner edge of its lower lip where the picture shows it. In a smile the mesh often runs
 * through the teeth: from there the edge moves down to the first place of the lip's colour.
 * @param points x, y and z of each mesh point
 * @param colourAt in the coordinates of `points`
 */
export function withLipEdge(points: Float32Array, faceWidth: number, colourAt: ColourAt): Float32Array {
  const at = (index: number, axis: number): number => points[index * 3 + axis] as number;
  const opening = Math.hypot(at(13, 0) - at(14, 0), at(13, 1) - at(14, 1));
  const strength = smoothstep(OPEN[0] * faceWidth, OPEN[1] * faceWidth, opening);
  if (strength === 0) return points;
  const [ax, ay] = [at(291, 0) - at(61, 0), at(291, 1) - at(61, 1)];
  const across = Math.max(1e-6, Math.hypot(ax, ay));
  const down = { x: -ay / across, y: ax / across };
  const [outer, , , inner] = LIP_RINGS as readonly (readonly number[])[] as [
    number[],
    number[],
    number[],
    number[],
  ];
  const colour = (x: number, y: number): Float32Array => {
    const out = new Float32Array(3);
    colourAt(x, y, out);
    return out;
  };
  const lips = COLUMNS.map((j) => {
    const index = LIP_RINGS[1]?.[j] as number;
    return colour(at(index, 0), at(index, 1));
  });
  const moves = COLUMNS.map((j, k) => {
    const lip = mean([lips[k - 1] ?? lips[k], lips[k], lips[k + 1] ?? lips[k]] as Float32Array[]);
    const [x, y] = [at(inner[j] as number, 0), at(inner[j] as number, 1)];
    const back = Math.min(INSIDE * faceWidth, 0.4 * opening);
    const contrast = apart(colour(x - back * down.x, y - back * down.y), lip);
    if (contrast < LEAST_CONTRAST) return 0;
    const thickness = Math.hypot(at(outer[j] as number, 0) - x, at(outer[j] as number, 1) - y);
    const farthest = Math.min(FARTHEST * faceWidth, OF_LIP * thickness);
    for (let move = 0; move <= farthest; move += STEP * faceWidth)
      if (apart(colour(x + move * down.x, y + move * down.y), lip) < LIP * contrast) return move;
    return 0;
  });
  const out = points.slice();
  for (const [k, j] of COLUMNS.entries()) {
    const near = (step: number): number => middle([-1, 0, 1].map((d) => moves[k + step + d] ?? 0));
    const move = strength * (0.25 * near(-1) + 0.5 * near(0) + 0.25 * near(1));
    for (const [r, ring] of LIP_RINGS.entries()) {
      const index = ring[j] as number;
      out[index * 3] = at(index, 0) + move * (RING_SHARES[r] as number) * down.x;
      out[index * 3 + 1] = at(index, 1) + move * (RING_SHARES[r] as number) * down.y;
    }
  }
  return out;
}

/** Returns the colours of a picture for {@link withLipEdge}. */
export function coloursOf(image: RgbImage): ColourAt {
  return (x, y, out) => {
    sampleRgb(image, x, y, out);
    const [r, g, b] = out as unknown as [number, number, number];
    const bright = luma(r, g, b);
    out[0] = bright;
    out[1] = r - bright;
    out[2] = b - bright;
  };
}

function apart(a: Float32Array, b: Float32Array): number {
  return Math.hypot(...a.map((v, c) => v - (b[c] as number)));
}

function mean(colours: readonly Float32Array[]): Float32Array {
  return Float32Array.from([0, 1, 2], (c) =>
    colours.reduce((sum, one) => sum + (one[c] as number) / colours.length, 0),
  );
}

/** Returns the median of three. */
function middle(values: number[]): number {
  return values.sort((a, b) => a - b)[1] as number;
}
