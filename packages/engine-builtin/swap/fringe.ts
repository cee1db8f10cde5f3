import { blur, distanceInside, grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { hysteresis } from './cover.ts';
import type { FaceZones } from './face-zones.ts';

/** Depth below the top of the face in which hair surely begins, as a share of the face width. */
const TOP = 0.05;
/**
 * Width of the margin around a fringe that contains its single strands and its shadow, as a share of the face
 * width.
 */
const MARGIN = 0.05;

/**
 * Finds hair that hangs over a forehead. A fair fringe resembles skin nearly as much as a shadow does, so
 * unlikeness to skin does not find it. On a forehead everything that is not plainly skin and is connected to such
 * pixels at its top counts as hair; a bare forehead has none of them.
 * @param skinlike 1 on what may be skin
 * @returns share of hair in each pixel
 */
export function findFringe(skinlike: Plane, zones: FaceZones, faceWidth: number): Plane {
  const depth = distanceInside(zones.face);
  const unlike = plane(skinlike.width, skinlike.height);
  for (let i = 0; i < unlike.data.length; i++) {
    unlike.data[i] = zones.forehead.data[i] && !zones.brows.data[i] && !skinlike.data[i] ? 1 : 0;
  }
  const hair = hysteresis(unlike, (i) => (depth.data[i] as number) < TOP * faceWidth);
  const out = blur(grow(hair, MARGIN * faceWidth), 0.01 * faceWidth);
  // A brow is never hair of a fringe: it belongs to the person.
  for (let i = 0; i < out.data.length; i++) if (zones.brows.data[i]) out.data[i] = 0;
  return out;
}
