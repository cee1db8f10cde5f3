import {
  LEFT_BROW,
  LEFT_EYE,
  LIPS_OUTER,
  NOSE_BASE,
  RIGHT_BROW,
  RIGHT_EYE,
} from '@semblance/vision/face-regions';
import type { Gaze } from '@semblance/vision/gaze';
import { fillPolygon, grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { convexHull } from './convex-hull.ts';

/** How surely both faces show each feature, 0–1; right and left are the eyes. */
export interface ShownFeatures {
  readonly mouth: number;
  readonly nose: number;
  readonly right: number;
  readonly left: number;
  readonly rightBrow: number;
  readonly leftBrow: number;
}

export const ALL_SHOWN: ShownFeatures = { mouth: 1, nose: 1, right: 1, left: 1, rightBrow: 1, leftBrow: 1 };

/** Returns a value for each feature. */
export function eachFeature(value: (feature: keyof ShownFeatures) => number): ShownFeatures {
  return {
    mouth: value('mouth'),
    nose: value('nose'),
    right: value('right'),
    left: value('left'),
    rightBrow: value('rightBrow'),
    leftBrow: value('leftBrow'),
  };
}

const OUTLINES = {
  mouth: LIPS_OUTER,
  nose: NOSE_BASE,
  right: RIGHT_EYE,
  left: LEFT_EYE,
  rightBrow: RIGHT_BROW,
  leftBrow: LEFT_BROW,
} as const;
/** Width by which the outlines are grown, as a share of the face width. */
const GROWN = 0.03;
/** Correlations below which a feature is hidden, and from which it is seen. */
const SEEN = { mouth: [0.3, 0.45], nose: [0.12, 0.3], eye: [0.05, 0.22] } as const;
/** Share of a feature's area from which it is not taken because it is covered. */
const COVERED = 0.5;
/** Difference of both eyes' correlations up to which both are equally visible. */
const ALIKE = 0.3;
/** What irises that are found on both faces count as, beside a correlation. */
const IRISES = 0.3;
/** How surely an iris must be found to be one. */
const IRIS = 0.5;
/** Correlation of both faces' brows from which bare brows lie over shut eyes and not a dark lens. */
const BROWS = 0.3;
/** How surely an eye must be shut to be one. */
const SHUT = 0.5;

/** Middles of the upper and the lower lid of the right and the left eye. */
const LIDS = [
  [159, 145],
  [386, 374],
] as const;
/** Ratio of the openings of both eyes below which one winks. */
const WINK = 0.8;

/** What is known of the eyes of two faces. */
export interface EyesKnown {
  readonly own: Gaze;
  readonly other: Gaze;
  readonly filmed?: FilmedEyes | undefined;
}

/** What the last analysis of a film decided. */
export interface DecidedBefore {
  /** Share of each feature that it took. */
  readonly taken: ShownFeatures;
  /** Whether it found a beard on the face of the film. */
  readonly bearded: boolean;
  /** Whether a moustache hangs over its upper lip. */
  readonly overLip?: boolean | undefined;
  /** Whether the face of the film keeps its brows because the source's are much fainter. */
  readonly browsKept?: boolean | undefined;
}

/** What the frames of a film tell of a face's eyes. Values are of the right and the left eye. */
export interface FilmedEyes {
  /** How far they are closed for a moment only, 0–1, as in a blink. */
  readonly blinking: readonly [number, number];
  /** How surely their irises are usually seen, 0–1. */
  readonly usual: readonly [number, number];
}

/**
 * Compares the features of two faces that lie over each other. Mouths, noses and eyes of different people have the
 * same dark and bright places, while a mask, a hand or dark glasses has none of them there. So a feature with a low
 * correlation is hidden on one of the faces. A feature is taken or not: half of one eye and half of another make none.
 * Nor are open eyes put where the first face's are shut. Brows are taken beside eyes that stay, too, where neither is
 * covered.
 * @param own detail of one face's brightness on the work grid; `other` is that of the other face
 * @param free 1 where nothing is known to be in front of either face, such as a frame; `front` is what the network
 * finds in front of either; `eyes` what is known of the eyes
 * @param points x and y of each mesh point on that grid, stride 2
 * @param before what was taken before in a film: what was shown is hidden only where it surely is, so that a mouth does
 * not change its owner with each word
 */
export function shownFeatures(
  own: Plane,
  other: Plane,
  {
    free,
    front,
    eyes,
  }: { readonly free: Plane; readonly front: Plane | undefined; readonly eyes?: EyesKnown | undefined },
  points: Float32Array,
  faceWidth: number,
  before?: ShownFeatures,
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
    const uncovered = covered / Math.max(1, area) < COVERED ? 1 : 0;
    return { alike: correlation(own, other, grown), uncovered };
  };
  const [mouth, nose, right, left] = (['mouth', 'nose', 'right', 'left'] as const).map((name) =>
    at(OUTLINES[name]),
  ) as [Seen, Seen, Seen, Seen];
  const known = front ? eyes : undefined;
  const [first, second] = eyesTaken([right, left], known, winkOf(points), before);
  const taking = { right: right.uncovered * first, left: left.uncovered * second };
  const brows = { rightBrow: taking.right, leftBrow: taking.left };
  if (known && Math.min(taking.right, taking.left) === 0) {
    const [rightBrow, leftBrow] = [at(OUTLINES.rightBrow), at(OUTLINES.leftBrow)];
    if (eyesBare(known, (rightBrow.alike + leftBrow.alike) / 2)) {
      brows.rightBrow = Math.max(taking.right, right.uncovered * rightBrow.uncovered);
      brows.leftBrow = Math.max(taking.left, left.uncovered * leftBrow.uncovered);
    }
  }
  return {
    mouth: mouth.uncovered * taken(SEEN.mouth, mouth.alike, before?.mouth),
    nose: nose.uncovered * taken(SEEN.nose, nose.alike, before?.nose),
    ...taking,
    ...brows,
  };
}

/** Returns whether nothing that the network misses, such as dark lenses, can lie over the eyes of either face. */
function eyesBare({ own, other, filmed }: EyesKnown, browsAlike: number): boolean {
  const seen = (gaze: Gaze, usual: readonly number[] = []) => Math.max(...gaze.seen, ...usual) > IRIS;
  return browsAlike > BROWS || (seen(own, filmed?.usual) && seen(other));
}

/** Returns 1 when a value is beyond the middle of an interval, or, where it was 1 before, beyond its start; else 0. */
function taken([low, high]: readonly [number, number], value: number, before = 0): 0 | 1 {
  return value > (before > 0.5 ? low : (low + high) / 2) ? 1 : 0;
}

/** Returns whether each eye is taken: both or none, unless one is known to be covered or the first face winks. */
function eyesTaken(
  seen: readonly [Seen, Seen],
  eyes: EyesKnown | undefined,
  wink: boolean,
  before: ShownFeatures | undefined,
): readonly [number, number] {
  const irises = ([0, 1] as const).map((side) =>
    eyes ? Math.max(eyes.own.seen[side], eyes.filmed?.usual[side] ?? 0) * eyes.other.seen[side] : 0,
  ) as [number, number];
  const found = ([0, 1] as const).map((side) => seen[side].alike + IRISES * irises[side]) as [number, number];
  // Where a film's face looks, and whether it blinks, is seen in each frame.
  const surely = eyes?.filmed && Math.min(...irises) > IRIS;
  const held = before && Math.min(before.right, before.left);
  const both = surely ? 1 : taken(SEEN.eye, (found[0] + found[1]) / 2, held);
  if (!eyes) {
    const equal = Math.abs(seen[0].alike - seen[1].alike) < ALIKE;
    return equal ? [both, both] : [taken(SEEN.eye, found[0]), taken(SEEN.eye, found[1])];
  }
  // A second face that shuts an eye has no pair of eyes to give.
  if (Math.max(...eyes.other.shut) > SHUT) return [0, 0];
  const shut = ([0, 1] as const).map(
    (side) =>
      eyes.own.shut[side] > SHUT &&
      Math.max(eyes.filmed?.blinking[side] ?? 0, eyes.filmed?.usual[side] ?? 0) < SHUT,
  );
  if (!shut[0] && !shut[1]) {
    const covered = seen.map(({ uncovered }) => uncovered === 0);
    if (!covered[0] && !covered[1]) return [both, both];
    return [taken(SEEN.eye, found[0]), taken(SEEN.eye, found[1])];
  }
  if (!wink || shut[0] === shut[1]) return [0, 0];
  return shut[0] ? [0, taken(SEEN.eye, found[1])] : [taken(SEEN.eye, found[0]), 0];
}

/** Returns whether the lids of one eye are much closer together than those of the other. */
function winkOf(points: Float32Array): boolean {
  const [right, left] = LIDS.map(([upper, lower]) =>
    Math.hypot(
      (points[upper * 2] as number) - (points[lower * 2] as number),
      (points[upper * 2 + 1] as number) - (points[lower * 2 + 1] as number),
    ),
  ) as [number, number];
  return Math.min(right, left) < WINK * Math.max(right, left);
}

interface Seen {
  /** Correlation of both faces there. */
  readonly alike: number;
  /** 1 where less than half is covered, else 0. */
  readonly uncovered: 0 | 1;
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
