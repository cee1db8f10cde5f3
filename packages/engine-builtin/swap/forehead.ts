import { grow, type Plane, plane, sample } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';
import { hysteresis } from './cover.ts';
import type { FaceZones } from './face-zones.ts';
import type { SourceFace } from './source-face.ts';

/** Radius of the narrowest piece of forehead that is replaced, as a share of the face width. */
const LEAST = 0.1;

/**
 * Adds to the area that is always replaced the adjoining forehead that is surely bare skin on both faces. So no
 * fringe of the source is carried over, and none of the target is painted over.
 * @param seen where the source is visible, and where the target surely shows skin
 * @returns 1 where the target may be replaced
 */
export function withForehead(
  zones: FaceZones,
  direct: WarpMap,
  seen: { source: SourceFace; clean: Plane },
  faceWidth: number,
): Plane {
  const { source, clean } = seen;
  const bare = plane(zones.face.width, zones.face.height);
  for (let i = 0; i < bare.data.length; i++) {
    if (zones.replaced.data[i]) bare.data[i] = 1;
    if (bare.data[i] || !zones.face.data[i] || !clean.data[i] || !direct.covered.data[i]) continue;
    const x = (direct.x.data[i] as number) * source.visibleScale;
    const y = (direct.y.data[i] as number) * source.visibleScale;
    if (sample(source.clean, x, y) > 0.5) bare.data[i] = 1;
  }
  const broad = grow(grow(bare, -LEAST * faceWidth), LEAST * faceWidth);
  for (let i = 0; i < bare.data.length; i++) {
    broad.data[i] = zones.replaced.data[i] ? 1 : Math.min(broad.data[i] as number, bare.data[i] as number);
  }
  return hysteresis(broad, (i) => zones.replaced.data[i] === 1);
}
