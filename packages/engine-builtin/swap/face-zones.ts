import {
  FACE_OVAL,
  LEFT_BROW,
  LEFT_EYE,
  LIPS_INNER,
  LIPS_OUTER,
  NOSE_BASE,
  NOSE_BRIDGE,
  RIGHT_BROW,
  RIGHT_EYE,
} from '@semblance/vision/face-regions';
import type { Point } from '@semblance/vision/picture';
import { fillPolygon, grow, type Plane, plane } from '@semblance/vision/plane/plane';

/**
 * Outline of the replaced area: the cheeks, the jaw and a band above the brows, well below the hairline. It follows
 * the oval from the right temple down and up to the left temple, then returns across the forehead.
 */
const REPLACED = [
  127, 234, 93, 132, 58, 172, 136, 150, 149, 176, 148, 152, 377, 400, 378, 379, 365, 397, 288, 361, 323, 454,
  356, 389, 301, 298, 333, 299, 337, 151, 108, 69, 104, 68, 71, 162,
] as const;

/** Outline of the forehead: from the right temple up around the top of the oval, then back along the brows. */
const FOREHEAD = [
  162, 21, 54, 103, 67, 109, 10, 338, 297, 332, 284, 251, 389, 368, 300, 293, 334, 296, 336, 9, 107, 66, 105,
  63, 70, 139,
] as const;

/** Areas of one face on a grid of pixels, each 0 or 1. */
export interface FaceZones {
  readonly face: Plane;
  readonly replaced: Plane;
  readonly eyes: Plane;
  /** The area above the brows. */
  readonly forehead: Plane;
  readonly brows: Plane;
  /** The brows without their surroundings. */
  readonly browShapes: Plane;
  readonly lips: Plane;
  readonly mouth: Plane;
  readonly nostrils: Plane;
  /** The eyes without their surroundings. */
  readonly eyeOpenings: Plane;
  readonly eyeCentres: readonly Point[];
  /** The area where glasses sit: from the brows to the cheekbones and from temple to temple. */
  readonly glasses: Plane;
  /** Areas that a frame crosses. */
  readonly noseRoot: Plane;
  readonly rightTemple: Plane;
  readonly leftTemple: Plane;
}

const GLASSES = [
  127, 234, 227, 123, 147, 187, 205, 36, 142, 126, 217, 174, 196, 197, 419, 399, 437, 355, 371, 266, 425, 411,
  376, 352, 447, 454, 356, 368, 301, 298, 333, 299, 337, 151, 108, 69, 104, 68, 71, 139,
] as const;
const NOSE_ROOT = NOSE_BRIDGE;
const RIGHT_TEMPLE = [130, 226, 113, 156, 139, 34, 227, 116, 111, 31, 25] as const;
const LEFT_TEMPLE = [359, 446, 342, 383, 368, 264, 447, 345, 340, 261, 255] as const;

/** @param points x and y of each mesh point in grid pixels, stride 2; `width` is the face width in the same pixels */
export function faceZones(
  points: Float32Array,
  size: { width: number; height: number },
  faceWidth: number,
): FaceZones {
  const draw = (outlines: readonly (readonly number[])[]): Plane => {
    const target = plane(size.width, size.height);
    for (const outline of outlines) {
      fillPolygon(
        target,
        outline.flatMap((index) => [points[index * 2] as number, points[index * 2 + 1] as number]),
      );
    }
    return target;
  };
  return {
    face: draw([FACE_OVAL]),
    replaced: draw([REPLACED]),
    eyes: grow(draw([RIGHT_EYE, LEFT_EYE]), 0.02 * faceWidth),
    forehead: draw([FOREHEAD]),
    brows: grow(draw([RIGHT_BROW, LEFT_BROW]), 0.025 * faceWidth),
    browShapes: grow(draw([RIGHT_BROW, LEFT_BROW]), 0.006 * faceWidth),
    lips: grow(draw([LIPS_OUTER]), 0.02 * faceWidth),
    mouth: draw([LIPS_INNER]),
    nostrils: grow(draw([NOSE_BASE]), 0.01 * faceWidth),
    eyeOpenings: draw([RIGHT_EYE, LEFT_EYE]),
    eyeCentres: [RIGHT_EYE, LEFT_EYE].map((outline) => ({
      x: outline.reduce((sum, index) => sum + (points[index * 2] as number), 0) / outline.length,
      y: outline.reduce((sum, index) => sum + (points[index * 2 + 1] as number), 0) / outline.length,
    })),
    glasses: draw([GLASSES]),
    noseRoot: draw([NOSE_ROOT]),
    rightTemple: draw([RIGHT_TEMPLE]),
    leftTemple: draw([LEFT_TEMPLE]),
  };
}

/** Returns where plain skin should be visible: the face without its features. */
export function plainSkin(zones: FaceZones): Plane {
  const { width, height } = zones.face;
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) {
    const feature =
      (zones.eyes.data[i] as number) +
      (zones.brows.data[i] as number) +
      (zones.lips.data[i] as number) +
      (zones.nostrils.data[i] as number);
    out.data[i] = feature === 0 ? (zones.face.data[i] as number) : 0;
  }
  return out;
}
