import { centroid, type Face, pointOf } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LEFT_BROW, LEFT_EYE, RIGHT_BROW, RIGHT_EYE } from '@semblance/vision/face-regions';
import { type CropTransform, type Point, squareCrop, toCrop } from '@semblance/vision/picture';
import { alignFace } from '../vision/align.ts';

/** A square around a face, in pixels of its picture. */
export interface FaceSquare {
  readonly center: Point;
  readonly side: number;
}

/**
 * LivePortrait's framing of a face: side of the crop per side of the face, and distance of the crop's centre above
 * the face's centre, as a share of the crop's side (`src/config/argument_config.py` of KwaiVGI/LivePortrait).
 */
const STILL = { reach: 2.3, up: 0.125 } as const;
const DRIVER = { reach: 2.2, up: 0.1 } as const;
/** Enlargement of the crop for five points on FFHQ's template, as in FaceFusion's `face_editor.py`. */
const FIVE_REACH = 1.5;
const MOUTH_CORNERS = [61, 291] as const;

interface Bounds {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/**
 * Returns the clockwise angle between the vertical and the line from the eyes to the mouth. Turning the head aside
 * does not change it.
 */
function uprightAngle({ points }: Face): number {
  const eyes = middle(centroid(points, RIGHT_EYE), centroid(points, LEFT_EYE));
  const mouth = middle(pointOf(points, MOUTH_CORNERS[0]), pointOf(points, MOUTH_CORNERS[1]));
  return Math.atan2(eyes.x - mouth.x, mouth.y - eyes.y);
}

function middle(a: Point, b: Point): Point {
  return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
}

/**
 * Returns the extent from the brows to the chin and from cheek to cheek, in a picture rotated by `angle` about its
 * corner.
 */
function boundsOf({ points }: Face, angle: number): Bounds {
  const turned: CropTransform = { scale: 1, angle, originX: 0, originY: 0 };
  const place = (index: number): Point => {
    const { x, y } = pointOf(points, index);
    return toCrop(turned, x, y);
  };
  const oval = FACE_OVAL.map(place);
  const brows = [...RIGHT_BROW, ...LEFT_BROW].map(place);
  return {
    left: Math.min(...oval.map(({ x }) => x)),
    right: Math.max(...oval.map(({ x }) => x)),
    top: Math.min(...brows.map(({ y }) => y)),
    bottom: Math.max(...oval.map(({ y }) => y)),
  };
}

function frame(face: Face, angle: number, { reach, up }: { reach: number; up: number }): FaceSquare {
  const { left, top, right, bottom } = boundsOf(face, angle);
  const side = reach * Math.max(right - left, bottom - top);
  const [u, v] = [(left + right) / 2, (top + bottom) / 2 - up * side];
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  return { center: { x: cos * u - sin * v, y: sin * u + cos * v }, side };
}

/**
 * Returns the crop of a still on which LivePortrait works: upright by the line from the eyes to the mouth.
 * @param face its mesh, or five points without a mesh
 */
export function stillCrop(
  face: { readonly mesh: Face | undefined; readonly five: readonly Point[] },
  size: number,
): CropTransform {
  const { mesh, five } = face;
  if (mesh) {
    const angle = uprightAngle(mesh);
    const { center, side } = frame(mesh, angle, STILL);
    return squareCrop(center, side, angle, size);
  }
  const nose = five[2] as Point;
  const spread = five.map(({ x, y }) => ({
    x: nose.x + FIVE_REACH * (x - nose.x),
    y: nose.y + FIVE_REACH * (y - nose.y),
  }));
  return alignFace(spread, 'ffhq_512', size);
}

/**
 * Returns the part of a driver's frame for its crop. It is not rotated, because the tilt of the driver's head must
 * stay visible.
 */
export function driverSquare(mesh: Face): FaceSquare {
  // The size is measured upright; the square itself is not rotated.
  return frame(mesh, uprightAngle(mesh), DRIVER);
}

/** Returns one square for all frames, so that the driver's motion through the picture stays visible. */
export function meanSquare(squares: readonly FaceSquare[]): FaceSquare {
  const mean = (value: (square: FaceSquare) => number): number =>
    squares.reduce((sum, square) => sum + value(square), 0) / squares.length;
  return {
    center: { x: mean(({ center }) => center.x), y: mean(({ center }) => center.y) },
    side: mean(({ side }) => side),
  };
}

/**
 * Openness of eyes and lips, height over width, as the retargeters expect it; the eye on the left of the picture
 * first.
 */
export interface Openness {
  readonly eyes: readonly [number, number];
  readonly lips: number;
}

/**
 * Uses the mesh points nearest to those of LivePortrait's measure: middles of the lids over corners of the eyes,
 * middles of the inner lips over corners of the mouth (`src/utils/retargeting_utils.py`).
 */
export function opennessOf({ points }: Face): Openness {
  const ratio = (top: number, bottom: number, left: number, right: number): number => {
    const [a, b] = [pointOf(points, top), pointOf(points, bottom)];
    const [c, d] = [pointOf(points, left), pointOf(points, right)];
    return Math.hypot(a.x - b.x, a.y - b.y) / (Math.hypot(c.x - d.x, c.y - d.y) + 1e-6);
  };
  return {
    eyes: [ratio(159, 145, 33, 133), ratio(386, 374, 362, 263)],
    lips: ratio(13, 14, ...MOUTH_CORNERS),
  };
}
