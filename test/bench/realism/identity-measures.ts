import type { Picture } from '@semblance/engine-api/picture';
import { type Face, pointOf } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import { fillPolygon, plane } from '@semblance/vision/plane/plane';
import { areaOf, meanLab } from './face-areas.ts';

/** Skin of both cheeks. */
const CHEEKS = [
  [50, 205, 187, 123, 117],
  [280, 425, 411, 352, 346],
] as const;
/** Least difference of a channel between the old head and the room in which it can be told. */
const APART = 30;
/** Most by which a channel of an old pixel that remains has changed. */
const SAME = 12;
/** The part of the neck that is compared, below the chin and beside it, in eye distances. */
const NECK = { from: 0.12, to: 0.32, wide: 0.35 } as const;
/** Share of a difference in lightness that counts: the chin throws a shadow. */
const SHADOW = 0.3;

/** What is measured of a clip in which a head was replaced. */
export interface IdentityMeasures {
  /** Share of frames in which a detector that the engine does not use finds the face where the old one was. */
  readonly found: number;
  /** Mean distance between the mesh and that detector's landmarks in these frames, % of the face's width. */
  readonly landmarks: number;
  /** Largest Lab distance between cheeks and neck; of lightness a share counts. */
  readonly neck: number;
  /** How much more a region's colour steps from frame to frame than in the clip, Lab. */
  readonly flicker: number;
  /** Largest share of the old head around the face that still shows. */
  readonly remains: number;
}

/** A case is good within these limits. */
const IDENTITY_LIMITS: { readonly [key in keyof IdentityMeasures]: readonly [number, number] } = {
  found: [0.95, 1],
  landmarks: [0, 5],
  neck: [0, 14],
  flicker: [0, 4],
  remains: [0, 0.2],
};

/** Returns what is outside its limits, and how far the worst is. */
export function identityVerdict(measures: IdentityMeasures): { worst: number; faults: string[] } {
  const outside = (Object.keys(IDENTITY_LIMITS) as (keyof IdentityMeasures)[]).flatMap((name) => {
    const value = measures[name];
    const [low, high] = IDENTITY_LIMITS[name];
    const by = value > high ? value / high - 1 : value < low ? low / Math.max(value, 1e-3) - 1 : 0;
    return by > 0 ? [{ by, text: `${name} ${value.toFixed(2)}` }] : [];
  });
  outside.sort((a, b) => b.by - a.by);
  return { worst: outside[0]?.by ?? 0, faults: outside.map(({ text }) => text) };
}

/** Returns the Lab distance between the cheeks and the neck under the chin. */
export function neckSeam(picture: Picture, face: Face): number {
  const cheeks = meanLab(picture, areaOf(picture, face, CHEEKS));
  const chin = pointOf(face.points, 152);
  const iod = eyeDistance(face);
  const [cos, sin] = [Math.cos(face.roll) * iod, Math.sin(face.roll) * iod];
  const at = (right: number, down: number): [number, number] => [
    chin.x + right * cos - down * sin,
    chin.y + right * sin + down * cos,
  ];
  const { from, to, wide } = NECK;
  const neck = plane(picture.width, picture.height);
  fillPolygon(neck, [...at(-wide, from), ...at(wide, from), ...at(wide, to), ...at(-wide, to)]);
  const [l, a, b] = meanLab(picture, neck).map((value, c) => value - (cheeks[c] as number)) as [
    number,
    number,
    number,
  ];
  return Math.hypot(SHADOW * l, a, b);
}

/**
 * Returns the share of the old head around the face that a frame still shows.
 * @param empty the room without the person
 * @param mask coverage of each pixel by the person, 0–255
 */
export function remainsShare(
  { before, after, empty }: { readonly before: Picture; readonly after: Picture; readonly empty: Uint8Array },
  mask: Uint8Array,
  face: Face,
): number {
  const { width, height } = before;
  const oval = areaOf(before, face, [FACE_OVAL]);
  const chin = pointOf(face.points, 152);
  const iod = eyeDistance(face);
  const [cos, sin] = [Math.cos(face.roll), Math.sin(face.roll)];
  let [old, kept] = [0, 0];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      if ((mask[i] as number) < 250 || oval.data[i]) continue;
      const [dx, dy] = [(x - chin.x) / iod, (y - chin.y) / iod];
      const [right, down] = [dx * cos + dy * sin, dy * cos - dx * sin];
      // Below the mouth are neck and clothes, which stay.
      if (down > -0.9 || Math.abs(right) > 2) continue;
      let [apart, change] = [0, 0];
      for (let c = 0; c < 3; c++) {
        const was = before.data[i * 3 + c] as number;
        apart = Math.max(apart, Math.abs(was - (empty[i * 3 + c] as number)));
        change = Math.max(change, Math.abs(was - (after.data[i * 3 + c] as number)));
      }
      if (apart < APART) continue;
      old++;
      if (change <= SAME) kept++;
    }
  }
  return old > 0 ? kept / old : 0;
}

/** Returns whether a face lies where the old one was. */
export function liesOn(face: Face, old: Face): boolean {
  const [a, b] = [pointOf(face.points, 168), pointOf(old.points, 168)];
  const size = eyeDistance(face) / eyeDistance(old);
  return Math.hypot(a.x - b.x, a.y - b.y) < 0.3 * eyeDistance(old) && size > 0.8 && size < 1.25;
}

/** Returns the distance between the middles of the eyes, in pixels. */
export function eyeDistance({ points }: Pick<Face, 'points'>): number {
  const middle = (list: readonly number[], axis: number): number =>
    list.reduce((sum, i) => sum + (points[i * 3 + axis] as number), 0) / list.length;
  return Math.hypot(middle(LEFT_EYE, 0) - middle(RIGHT_EYE, 0), middle(LEFT_EYE, 1) - middle(RIGHT_EYE, 1));
}
