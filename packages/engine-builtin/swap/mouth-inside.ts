import { LIPS_INNER, LIPS_OUTER } from '@semblance/vision/face-regions';
import { blur, fillPolygon, grow, type Plane } from '@semblance/vision/plane/plane';

/** Mesh points in the middle of the inner edges of both lips. */
const MIDDLE = [13, 14] as const;
/**
 * Width by which an open mouth is larger than its mesh, which runs through the edges of the teeth: as a share of the
 * face width, and at most as a share of the opening.
 */
const BEYOND = 0.014;
const OF_OPENING = 0.4;
/** Number of points of LIPS_INNER from one corner of the mouth to the other. */
const HALF = 10;
/** Softness of its edge, as a share of the face width. */
const MOUTH_SOFT = 0.008;

/**
 * Width on both sides of the line between nearly closed lips, where the other face opens its mouth: as a share of the
 * face width, and at most as a share of what that mouth is open beyond this one.
 */
const LINE = 0.012;
const OF_CLOSING = 0.3;

/** Returns the opening of a mouth. @param stride numbers of each mesh point */
export function openingOf(points: Float32Array, stride: 2 | 3): number {
  const [upper, lower] = MIDDLE;
  const apart = (axis: 0 | 1): number =>
    (points[upper * stride + axis] as number) - (points[lower * stride + axis] as number);
  return Math.hypot(apart(0), apart(1));
}

/**
 * Returns the share of each pixel that is inside the mouth and stays the target's: teeth, tongue and the dark.
 * @param mouth 1 between the inner edges of the mesh's lips
 * @param points x and y of each mesh point, stride 2
 * @param other how far the other face opens its mouth; around lips that are more closed than that, teeth and dark
 * would be left of it
 */
export function mouthInside(mouth: Plane, points: Float32Array, faceWidth: number, other = 0): Plane {
  const opening = openingOf(points, 2);
  const beyond = Math.min(BEYOND * faceWidth, OF_OPENING * opening);
  const inside = grow(mouth, beyond);
  const line = Math.min(LINE * faceWidth, OF_CLOSING * (other - opening));
  if (line > beyond) fillPolygon(inside, widened(points, line));
  return blur(inside, MOUTH_SOFT * faceWidth);
}

/** Returns the inner edge of the lips, moved outwards by `width` on all sides. */
function widened(points: Float32Array, width: number): number[] {
  const at = (index: number): readonly [number, number] => [
    points[index * 2] as number,
    points[index * 2 + 1] as number,
  ];
  const [right, left] = [at(LIPS_INNER[0]), at(LIPS_INNER[HALF])];
  const [outerRight, outerLeft] = [at(LIPS_OUTER[0]), at(LIPS_OUTER[HALF])];
  const length = Math.max(1e-6, Math.hypot(left[0] - right[0], left[1] - right[1]));
  const [ux, uy] = [((left[0] - right[0]) / length) * width, ((left[1] - right[1]) / length) * width];
  return LIPS_INNER.flatMap((index, j) => {
    const [x, y] = at(index);
    if (j === 0) return [outerRight[0] - ux, outerRight[1] - uy];
    if (j === HALF) return [outerLeft[0] + ux, outerLeft[1] + uy];
    const side = j < HALF ? 1 : -1;
    return [x - side * uy, y + side * ux];
  });
}
