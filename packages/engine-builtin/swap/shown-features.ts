import { LEFT_EYE, LIPS_OUTER, NOSE_BASE, RIGHT_EYE } from '@semblance/vision/face-regions';
import { fillPolygon, grow, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { convexHull } from './convex-hull.ts';

/** How surely both faces show each feature, 0–1; right and left are the eyes with their brows. */
export interface ShownFeatures {
  readonly mouth: number;
  readonly nose: number;
  readonly right: number;
  readonly left: number;
}

export const ALL_SHOWN: ShownFeatures = { mouth: 1, nose: 1, right: 1, left: 1 };

const OUTLINES = { mouth: LIPS_OUTER, nose: NOSE_BASE, right: RIGHT_EYE, left: LEFT_EYE } as const;
/** Width by which the outlines are grown, as a share of the face width. */
const GROWN = 0.03;
/** Correlations below which a feature is hidden, and from which it is seen. */
const SEEN = { mouth: [0.3, 0.45], nose: [0.12, 0.3], eye: [0.05, 0.22] } as const;
/** Shares of a feature's area from which it is less taken because it is covered, and above which not at all. */
const COVERED = [0.35, 0.65] as const;
/** Difference of both eyes' correlations up to which both are equally visible. */
const ALIKE = 0.3;

/**
 * Compares the features of two faces that lie over each other. Mouths, noses and eyes of different people have the
 * same dark and bright places, while a mask, a hand or dark glasses has none of them there. So a feature with a low
 * correlation is hidden on one of the faces.
 * @param own detail of one face's brightness on the work grid; `other` is that of the other face
 * @param free 1 where nothing is known to be in front of either face, such as a frame; `front` is what the network
 * finds in front of either
 * @param points x and y of each mesh point on that grid, stride 2
 */
export function shownFeatures(
  own: Plane,
  other: Plane,
  { free, front }: { readonly free: Plane; readonly front: Plane | undefined },
  points: Float32Array,
  faceWidth: number,
): ShownFeatures {
  const at = (outline: readonly number[]): Seen => {
    const mask = plane(own.width, own.height);
    fillPolygon(mask, convexHull(points, outline));
    const grown = grow(mask, GROWN * faceWidth);
    let [area, covered] = [0, 0];
    for (let i = 0; i < grown.data.length; i++) {
      area += grown.data[i] as number;
      covered += (grown.data[i] as number) * (front?.data[i] ?? 0);
      grown.data[i] = (grown.data[i] as number) * (free.data[i] as number);
    }
    const uncovered = 1 - smoothstep(COVERED[0], COVERED[1], covered / Math.max(1, area));
    return { alike: correlation(own, other, grown), uncovered };
  };
  const [mouth, nose, right, left] = (['mouth', 'nose', 'right', 'left'] as const).map((name) =>
    at(OUTLINES[name]),
  ) as [Seen, Seen, Seen, Seen];
  const both = (right.alike + left.alike) / 2;
  const eye = ({ alike, uncovered }: Seen): number =>
    uncovered *
    smoothstep(SEEN.eye[0], SEEN.eye[1], Math.abs(right.alike - left.alike) < ALIKE ? both : alike);
  return {
    mouth: mouth.uncovered * smoothstep(SEEN.mouth[0], SEEN.mouth[1], mouth.alike),
    nose: nose.uncovered * smoothstep(SEEN.nose[0], SEEN.nose[1], nose.alike),
    right: eye(right),
    left: eye(left),
  };
}

interface Seen {
  /** Correlation of both faces there. */
  readonly alike: number;
  /** 1 where little is covered, 0 where most is. */
  readonly uncovered: number;
}

function correlation(a: Plane, b: Plane, mask: Plane): number {
  let [n, sa, sb, saa, sbb, sab] = [0, 0, 0, 0, 0, 0];
  for (let i = 0; i < mask.data.length; i++) {
    const w = mask.data[i] as number;
    if (w === 0) continue;
    const [x, y] = [a.data[i] as number, b.data[i] as number];
    n += w;
    sa += w * x;
    sb += w * y;
    saa += w * x * x;
    sbb += w * y * y;
    sab += w * x * y;
  }
  const spread = Math.sqrt(Math.max(0, saa - (sa * sa) / n) * Math.max(0, sbb - (sb * sb) / n));
  return n > 0 && spread > 1e-6 ? (sab - (sa * sb) / n) / spread : 1;
}
