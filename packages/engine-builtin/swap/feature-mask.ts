import { LEFT_BROW, LEFT_EYE, LIPS_OUTER, RIGHT_BROW, RIGHT_EYE } from '@semblance/vision/face-regions';
import { fillPolygon, grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { convexHull } from './convex-hull.ts';
import type { ShownFeatures } from './shown-features.ts';

/** Bridge, tip, wings and base of the nose. */
const NOSE = [
  168, 193, 417, 122, 351, 196, 419, 3, 248, 236, 456, 198, 420, 131, 360, 48, 278, 64, 294, 98, 327, 2, 97,
  326,
] as const;
/** The same without the bridge, on which glasses sit. */
const LOWER_NOSE = NOSE.slice(NOSE.indexOf(3));

/** Where the nose meets the upper lip, which a moustache reaches; and the edge of the nostrils above it. */
const NOSE_END: readonly number[] = [98, 327, 2, 97, 326];
const NOSTRIL_EDGE = [60, 290, 20, 250, 94] as const;

/** Widths by which the features are grown, as shares of the face width: what belongs to them lies around them. */
const GROWN = 0.08;
/** The same where hair or a frame lies close by, around eyes without their brows, and around brows without their eyes. */
const TIGHT = 0.02;
const LIDS = 0.04;
const BROW = 0.04;

export interface Wearing {
  /** Whether the source wears glasses. */
  readonly glasses: boolean;
  /** How surely either face wears a beard, 0–1. */
  readonly beard: number;
  /** Share of the source's brows that is taken, 0–1. */
  readonly brows: number;
}

/**
 * Returns 1 on the features that make a face that of a person: eyes with brows, nose and lips, with the skin that
 * moves with them; 0 on cheeks, jaw and forehead. Of a source with glasses only the openings of the eyes, the lower
 * nose and the lips are taken, because the rest lies beside the frame. A beard stays whole: between nose and chin
 * only the lips are taken.
 * @param points x and y of each mesh point in grid pixels, stride 2
 * @param shown share of each feature that is taken
 */
export function featureMask(
  points: Float32Array,
  size: { readonly width: number; readonly height: number },
  faceWidth: number,
  { glasses, beard, brows }: Wearing,
  shown: ShownFeatures,
): Plane {
  const draw = (group: readonly number[], grown: number): Plane => {
    const out = plane(size.width, size.height);
    fillPolygon(out, convexHull(points, group));
    return grow(out, grown * faceWidth);
  };
  const out = plane(size.width, size.height);
  const add = (mask: Plane, share: number): void => {
    for (let i = 0; i < out.data.length; i++)
      out.data[i] = Math.max(out.data[i] as number, (mask.data[i] as number) * share);
  };
  // What lies over the eyes, such as a frame or dark lenses, crosses the bridge too.
  const nose = glasses || Math.min(shown.right, shown.left) < 0.5 ? LOWER_NOSE : NOSE;
  const bareNose = [...nose.filter((i) => !NOSE_END.includes(i)), ...NOSTRIL_EDGE];
  for (const [group, bare, share] of [
    [LIPS_OUTER, LIPS_OUTER, shown.mouth],
    [nose, bareNose, shown.nose],
  ] as const) {
    if (share === 0) continue;
    if (beard < 1) add(draw(group, GROWN), share * (1 - beard));
    if (beard > 0) add(draw(bare, TIGHT), share);
  }
  for (const [eye, brow, share, browShown] of [
    [RIGHT_EYE, RIGHT_BROW, shown.right, shown.rightBrow],
    [LEFT_EYE, LEFT_BROW, shown.left, shown.leftBrow],
  ] as const) {
    const browShare = glasses ? 0 : brows * browShown;
    const both = Math.min(share, browShare);
    if (both > 0) add(draw([...eye, ...brow], GROWN), both);
    if (share > both) add(draw(eye, glasses ? TIGHT : LIDS), share);
    if (browShare > both) add(draw(brow, BROW), browShare);
  }
  return out;
}
