import { blur, grow, type Plane } from '@semblance/vision/plane/plane';

/** Mesh points in the middle of the inner edges of both lips. */
const MIDDLE = [13, 14] as const;
/**
 * Width by which an open mouth is larger than its mesh, which runs through the edges of the teeth: as a share of the
 * face width, and at most as a share of the opening.
 */
const BEYOND = 0.014;
const OF_OPENING = 0.4;
/** Softness of its edge, as a share of the face width. */
const MOUTH_SOFT = 0.008;

/**
 * Returns the share of each pixel that is inside the mouth and stays the target's: teeth, tongue and the dark.
 * @param mouth 1 between the inner edges of the mesh's lips
 * @param points x and y of each mesh point, stride 2
 */
export function mouthInside(mouth: Plane, points: Float32Array, faceWidth: number): Plane {
  const [upper, lower] = MIDDLE;
  const opening = Math.hypot(
    (points[upper * 2] as number) - (points[lower * 2] as number),
    (points[upper * 2 + 1] as number) - (points[lower * 2 + 1] as number),
  );
  const beyond = Math.min(BEYOND * faceWidth, OF_OPENING * opening);
  return blur(grow(mouth, beyond), MOUTH_SOFT * faceWidth);
}
