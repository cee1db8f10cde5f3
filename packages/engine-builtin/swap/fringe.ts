import { blur, distanceInside, grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { hysteresis } from './cover.ts';
import type { FaceZones } from './face-zones.ts';

/** How far below the top of the face hair surely begins there, as a share of the face's width. */
const TOP = 0.05;
/** How far around a fringe single strands and its shadow still belong to it. */
const MARGIN = 0.05;

/**
 * Hair that hangs over a forehead. In front of the rest of a face hair is told by how unlike skin it is; a fair fringe
 * is nearly as like it as a shadow. On a forehead whatever is not plainly skin and hangs together with what is not at
 * its top is taken for hair: bare foreheads have nothing of the kind.
 * @param skinlike 1 on what may be skin
 * @returns share of each pixel
 */
export function findFringe(skinlike: Plane, zones: FaceZones, faceWidth: number): Plane {
  const depth = distanceInside(zones.face);
  const unlike = plane(skinlike.width, skinlike.height);
  for (let i = 0; i < unlike.data.length; i++) {
    unlike.data[i] = zones.forehead.data[i] && !zones.brows.data[i] && !skinlike.data[i] ? 1 : 0;
  }
  const hair = hysteresis(unlike, (i) => (depth.data[i] as number) < TOP * faceWidth);
  const out = blur(grow(hair, MARGIN * faceWidth), 0.01 * faceWidth);
  // Never over a brow: that is the person's own.
  for (let i = 0; i < out.data.length; i++) if (zones.brows.data[i]) out.data[i] = 0;
  return out;
}
