import { pointOf } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import type { RgbImage } from '@semblance/vision/picture';
import { flood } from '@semblance/vision/plane/flood';
import { blur, fillPolygon, grow, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { opponent } from '../swap/skin.ts';
import type { FaceFrame } from './face-frame.ts';

/** Cells of a colour histogram per side. */
const BINS = 20;
const ROUNDS = 6;

/**
 * Returns the share of the person in each pixel: head with hair or hat, ears, neck, shoulders. The colours of
 * person and background are learned iteratively from where a person is expected around a face (as in GrabCut;
 * Rother et al. 2004). The edge follows the picture's edge (guided filter; He et al. 2010).
 * @param image part of the picture around the face
 * @param place the face's mesh and frame in pixels of `image`
 * @param seen a rough mask of the person, 0–255
 */
export function personMatte(
  image: RgbImage,
  place: { points: Float32Array; frame: FaceFrame },
  seen?: Uint8Array,
): Plane {
  const { prior, certain } = expectation(image.width, image.height, place);
  if (seen) believe(seen, prior, certain);
  const { iod } = place.frame;
  const { y } = opponent(image);
  const matte = learnMatte(image, { prior, certain }, Math.max(2, iod * 0.14));
  const whole = keepConnected(matte, certain);
  const sharp = guided(y, whole, Math.max(2, iod * 0.08), 40);
  for (let i = 0; i < sharp.data.length; i++) {
    sharp.data[i] = (certain.data[i] as number) > 0 ? 1 : smoothstep(0.12, 0.82, sharp.data[i] as number);
  }
  return sharp;
}

/** Odds of a person where a rough mask has no doubt. */
const MASKED = 3;

/** Corrects the expectation by a rough mask, which knows wide hair and hats. */
function believe(seen: Uint8Array, prior: Plane, certain: Plane): void {
  for (let i = 0; i < seen.length; i++) {
    const share = (seen[i] as number) / 255;
    const odds = MASKED * (2 * share - 1);
    const before = prior.data[i] as number;
    prior.data[i] = share > 0.5 ? Math.max(before, odds) : Math.min(before, before + odds);
    if (share > 0.5 && (certain.data[i] as number) < 0) certain.data[i] = 0;
  }
}

/**
 * Returns the share of the person in each pixel, from the colours of the expected person and of the rest.
 * @param expected `prior`: log odds of a person at each pixel; `certain`: 1 a person, -1 none, 0 unknown
 * @param radius within which an edge of the picture may be the person's, in pixels
 * @param checkpoint called between steps
 */
export function learnMatte(
  image: RgbImage,
  { prior, certain }: { prior: Plane; certain: Plane },
  radius: number,
  checkpoint: () => void = () => undefined,
): Plane {
  const { width, height } = image;
  const guide = guideOf(opponent(image).y, radius);
  const cells = colourCells(image);
  let matte = plane(width, height);
  for (let i = 0; i < cells.length; i++) matte.data[i] = logistic(prior.data[i] as number);
  for (let round = 0; round < ROUNDS; round++) {
    checkpoint();
    const person = histogram(cells, (i) => matte.data[i] as number);
    const rest = histogram(cells, (i) => 1 - (matte.data[i] as number));
    const next = plane(width, height);
    for (let i = 0; i < cells.length; i++) {
      const p = person[cells[i] as number] as number;
      const q = rest[cells[i] as number] as number;
      const colour = Math.min(3.5, Math.max(-3.5, Math.log((p + 2e-5) / (q + 2e-5))));
      next.data[i] = logistic((prior.data[i] as number) + 1.3 * colour);
    }
    matte = smoothed(guide, next, 60);
    for (let i = 0; i < cells.length; i++) {
      const known = certain.data[i] as number;
      if (known > 0) matte.data[i] = 1;
      else if (known < 0) matte.data[i] = 0;
    }
  }
  return matte;
}

/** Returns the cell of a colour histogram in which each pixel lies. */
export function colourCells(image: RgbImage): Int32Array {
  const { y, cb, cr } = opponent(image);
  const cells = new Int32Array(image.width * image.height);
  for (let i = 0; i < cells.length; i++) {
    cells[i] = colourCell(y.data[i] as number, cb.data[i] as number, cr.data[i] as number);
  }
  return cells;
}

/** Returns the cell of brightness (0–255) and colour differences (around 0). */
export function colourCell(y: number, cb: number, cr: number): number {
  return (cell(y, 255) * BINS + cell(cb * 1.6 + 128, 255)) * BINS + cell(cr * 1.6 + 128, 255);
}

const cell = (value: number, most: number): number =>
  Math.min(BINS - 1, Math.max(0, Math.floor((value / (most + 1)) * BINS)));
const logistic = (x: number): number => 1 / (1 + Math.exp(-x));

/**
 * Returns the log odds of a person at each place relative to the face, and where it is certain (1 person, -1 none).
 */
function expectation(
  width: number,
  height: number,
  { points, frame }: { points: Float32Array; frame: FaceFrame },
): { prior: Plane; certain: Plane } {
  const { iod, origin, axes } = frame;
  const norm = Math.hypot(axes[1] as number, axes[4] as number);
  const [downX, downY] = [(axes[1] as number) / norm, (axes[4] as number) / norm];
  const chin = pointOf(points, 152);
  const chinY = ((chin.x - origin[0]) * downX + (chin.y - origin[1]) * downY) / iod;
  const prior = plane(width, height);
  const certain = plane(width, height);
  const face = plane(width, height);
  fillPolygon(
    face,
    FACE_OVAL.flatMap((i) => {
      const { x, y } = pointOf(points, i);
      return [x, y];
    }),
  );
  const inner = grow(face, -Math.max(1, 0.08 * iod));
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      const dx = (x + 0.5 - origin[0]) / iod;
      const dy = (y + 0.5 - origin[1]) / iod;
      const u = Math.abs(dx * downY - dy * downX);
      const v = dx * downX + dy * downY;
      // The head is an ellipse from above the hair to the chin.
      const headY = v - 0.05;
      const head = Math.hypot(u / 1.5, headY / (headY < 0 ? 2.05 : 1.85));
      let odds = 3.2 * (1.05 - head) * (head < 1 ? 1.2 : 2);
      // The neck, and shoulders that widen below it, are upright in the picture however the head is tilted.
      const below = dy - chinY * 0.85;
      if (below > 0) {
        const half = 0.8 + 1.9 * smoothstep(0.5, 1.9, below) + 0.25 * Math.max(0, below - 1.9);
        odds = Math.max(odds, 3 * (1 - Math.abs(dx) / half) + 0.3 * below);
      }
      prior.data[i] = Math.max(-5, Math.min(4, odds));
      if ((inner.data[i] as number) > 0.5) certain.data[i] = 1;
      else if (v < -3.1 || (below < 0.4 && u > 3)) certain.data[i] = -1;
    }
  }
  return { prior, certain };
}

/**
 * Returns the share of the pixels in each cell, spread a little over the neighbouring cells.
 * @param weightOf weight of a pixel, 0–1; small ones do not count
 */
export function histogram(cells: Int32Array, weightOf: (i: number) => number): Float64Array {
  const counts = new Float64Array(BINS ** 3);
  let total = 0;
  for (let i = 0; i < cells.length; i++) {
    const weight = weightOf(i);
    if (weight < 0.3) continue;
    counts[cells[i] as number] = (counts[cells[i] as number] as number) + weight;
    total += weight;
  }
  let spread = counts;
  for (const step of [1, BINS, BINS * BINS]) {
    const next = new Float64Array(spread.length);
    for (let i = 0; i < spread.length; i++) {
      const at = Math.floor(i / step) % BINS;
      const low = at > 0 ? (spread[i - step] as number) : 0;
      const high = at < BINS - 1 ? (spread[i + step] as number) : 0;
      next[i] =
        (0.25 * low + 0.5 * (spread[i] as number) + 0.25 * high) / Math.max(1, total) ** (step === 1 ? 1 : 0);
    }
    spread = next;
  }
  return spread;
}

/** A picture along whose edges others are smoothed, with its means around each pixel. */
interface Guide {
  readonly values: Plane;
  readonly radius: number;
  readonly mean: Plane;
  readonly squares: Plane;
}

function guideOf(values: Plane, radius: number): Guide {
  return { values, radius, mean: blur(values, radius), squares: blur(product(values, values), radius) };
}

/** Smooths `source` along the edges of `guide`. */
export function guided(guide: Plane, source: Plane, radius: number, epsilon: number): Plane {
  return smoothed(guideOf(guide, radius), source, epsilon);
}

function smoothed(guide: Guide, source: Plane, epsilon: number): Plane {
  const { slope, offset } = lineAlong(guide, source, epsilon);
  const out = plane(source.width, source.height);
  for (let i = 0; i < out.data.length; i++) {
    const value = (slope.data[i] as number) * (guide.values.data[i] as number) + (offset.data[i] as number);
    out.data[i] = Math.min(1, Math.max(0, value));
  }
  return out;
}

/**
 * Returns how `source` depends on `guide` around each pixel: source = slope × guide + offset. Computed on small
 * planes, it gives the edges of `source` on a larger guide too (fast guided filter; He and Sun 2015).
 */
export function guidedLine(
  guide: Plane,
  source: Plane,
  radius: number,
  epsilon: number,
): { slope: Plane; offset: Plane } {
  return lineAlong(guideOf(guide, radius), source, epsilon);
}

function lineAlong(
  { values, radius, mean, squares }: Guide,
  source: Plane,
  epsilon: number,
): { slope: Plane; offset: Plane } {
  const { width, height } = values;
  const meanS = blur(source, radius);
  const meanGS = blur(product(values, source), radius);
  const a = plane(width, height);
  const b = plane(width, height);
  for (let i = 0; i < a.data.length; i++) {
    const g = mean.data[i] as number;
    const s = meanS.data[i] as number;
    const slope = ((meanGS.data[i] as number) - g * s) / ((squares.data[i] as number) - g * g + epsilon);
    a.data[i] = slope;
    b.data[i] = s - slope * g;
  }
  return { slope: blur(a, radius), offset: blur(b, radius) };
}

function product(a: Plane, b: Plane): Plane {
  const out = plane(a.width, a.height);
  for (let i = 0; i < out.data.length; i++) out.data[i] = (a.data[i] as number) * (b.data[i] as number);
  return out;
}

/** Removes parts that are not connected with the face, and fills enclosed holes. */
function keepConnected(matte: Plane, certain: Plane): Plane {
  const { width, height } = matte;
  const seedsInside: number[] = [];
  for (let i = 0; i < certain.data.length; i++) if ((certain.data[i] as number) > 0) seedsInside.push(i);
  const inside = flood(width, height, seedsInside, (i) => (matte.data[i] as number) >= 0.45);
  const border: number[] = [];
  for (let x = 0; x < width; x++) border.push(x, (height - 1) * width + x);
  for (let y = 0; y < height; y++) border.push(y * width, y * width + width - 1);
  const outside = flood(
    width,
    height,
    border.filter((i) => !inside[i]),
    (i) => !inside[i],
  );
  const near = plane(width, height);
  for (let i = 0; i < near.data.length; i++) near.data[i] = inside[i] || !outside[i] ? 1 : 0;
  const reach = grow(near, 2);
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) {
    if (!inside[i] && !outside[i]) out.data[i] = 1;
    else out.data[i] = (reach.data[i] as number) > 0 ? (matte.data[i] as number) : 0;
  }
  return out;
}
