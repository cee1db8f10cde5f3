import { LEFT_BROW, RIGHT_BROW } from '@semblance/vision/face-regions';
import { fillPolygon, grow, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { convexHull } from './convex-hull.ts';
import { hysteresis } from './cover.ts';

/** Distance from a brow's mesh to which its hairs are followed, as a share of the face width. */
const REACH = 0.12;
/** Darkness from which a pixel belongs to a brow, as a share of that brow's mean, and in levels. */
const HAIR = 0.35;
const LEAST_HAIR = 6;
/** Width of the margin around a brow that holds its single hairs, as a share of the face width. */
const MARGIN = 0.02;
/** Ratios of the second face's brows to the first's, in darkness, at which none and all of them is taken. */
const PALE = [0.4, 0.75] as const;

/** The brows of one face, on the work grid. */
function browsOf(points: Float32Array, size: Plane): Plane {
  const out = plane(size.width, size.height);
  for (const brow of [RIGHT_BROW, LEFT_BROW]) fillPolygon(out, convexHull(points, brow));
  return out;
}

/** Returns how much darker brows are than the skin around them, in levels. @param detail of the brightness */
function darkness(detail: Plane, brows: Plane): number {
  let [sum, count] = [0, 1e-6];
  for (let i = 0; i < brows.data.length; i++) {
    sum -= (brows.data[i] as number) * (detail.data[i] as number);
    count += brows.data[i] as number;
  }
  return Math.max(0, sum / count);
}

/**
 * Returns the share in which a second face's brows replace those of a first one, 0–1. Soft brows that are paler get
 * their hairs from the first face; two brows of such different darkness make neither the one nor the other.
 * @param details detail of the brightness of both faces
 * @param missing how much of its finest detail the second face lacks, 0–1
 */
export function browsTaken(
  [own, other]: readonly [Plane, Plane],
  points: Float32Array,
  missing: number,
): number {
  if (missing === 0) return 1;
  const brows = browsOf(points, own);
  const ratio = (darkness(other, brows) + 1) / (darkness(own, brows) + 1);
  return 1 - missing * (1 - smoothstep(PALE[0], PALE[1], ratio));
}

/**
 * Returns 1 on the hairs of a face's brows and close to them. A mesh often ends before a brow does, or runs beside
 * a painted one.
 * @param detail of the brightness
 * @param open share of each pixel that nothing covers
 */
export function wholeBrows(detail: Plane, points: Float32Array, open: Plane, faceWidth: number): Plane {
  const brows = browsOf(points, detail);
  const near = grow(brows, REACH * faceWidth);
  const hair = Math.max(LEAST_HAIR, HAIR * darkness(detail, brows));
  for (let i = 0; i < near.data.length; i++)
    if (-(detail.data[i] as number) < hair || (open.data[i] as number) < 0.5) near.data[i] = 0;
  return grow(
    hysteresis(near, (i) => brows.data[i] === 1),
    MARGIN * faceWidth,
  );
}
