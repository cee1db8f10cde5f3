import { coverAt, coverCrop, shareCovered, shareFramed } from '@semblance/vision/face-cover';
import type { Face } from '@semblance/vision/face-mesh';
import type { Point, RgbImage } from '@semblance/vision/picture';
import { grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { findCover, TARGET_COVER } from './cover.ts';
import type { FaceZones } from './face-zones.ts';

/** Share of an eye that is covered, from which it is hidden. */
const HIDDEN = 0.5;
/** Width of the lids around an eye, as a share of the face width. */
const LIDS = 0.04;

/** The coarse grid on which a target is analysed. */
export interface WorkGrid {
  /** Place of its first pixel in the picture, and picture pixels per pixel of the grid. */
  readonly originX: number;
  readonly originY: number;
  readonly scale: number;
  readonly width: number;
  readonly height: number;
}

/**
 * Returns the share of each work pixel that the network finds covered.
 * @param glasses 1 where the glasses that it wears sit; undefined: none
 */
export function frontOf(
  cover: Plane,
  face: Face,
  { originX, originY, scale, width, height }: WorkGrid,
  glasses?: Plane | undefined,
): Plane {
  const crop = coverCrop(face);
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) {
    const x = originX + ((i % width) + 0.5) * scale;
    const y = originY + (Math.floor(i / width) + 0.5) * scale;
    out.data[i] = (glasses?.data[i] ? shareFramed : shareCovered)(coverAt(cover, crop, x, y));
  }
  return out;
}

/** What lies in front of a target. */
export interface TargetCover {
  /** Share of each pixel that stays because of it. */
  readonly covered: Plane;
  /** 1 where surely nothing does. */
  readonly clean: Plane;
  /** What the network finds, but not in front of eyes that are seen through lenses; undefined: it was not asked. */
  readonly front: Plane | undefined;
  /** Whether it wears glasses through which its eyes are seen. */
  readonly framed: boolean;
}

/**
 * Returns what lies in front of a target.
 * @param inFront what the network finds in front of the face; undefined: it was not asked
 * @param frameFound whether it finds the frame of glasses; undefined: it was not asked
 */
export function targetCover(
  target: RgbImage,
  zones: FaceZones,
  faceWidth: number,
  inFront: Plane | undefined,
  frameFound: boolean | undefined,
): TargetCover {
  const { front, frame, clean, hasGlasses } = findCover(target, zones, faceWidth, TARGET_COVER);
  const framed = frameFound || (hasGlasses && !eyeHidden(inFront, zones));
  const out = plane(target.width, target.height);
  // What is seen through a lens is mixed with nothing.
  const eyes = framed ? grow(zones.eyeOpenings, 0.01 * faceWidth) : undefined;
  for (let i = 0; i < out.data.length; i++) {
    const found = inFront?.data[i] ?? 0;
    const through = 1 - (eyes?.data[i] ?? 0);
    out.data[i] = through * Math.max(front.data[i] as number, frame.data[i] as number, found);
    if (found > 0.02) clean.data[i] = 0;
  }
  return {
    covered: out,
    clean,
    framed,
    front: inFront && framed ? besideEyes(inFront, zones, faceWidth) : inFront,
  };
}

/** Returns what lies in front of a face beside its eyes with their lids. */
export function besideEyes(front: Plane, { eyeOpenings }: FaceZones, faceWidth: number): Plane {
  const lids = grow(eyeOpenings, LIDS * faceWidth);
  return { ...front, data: front.data.map((share, i) => share * (1 - (lids.data[i] as number))) };
}

/** Returns whether an eye is hidden, as by a dark lens or a hand. */
function eyeHidden(front: Plane | undefined, { eyeOpenings, eyeCentres }: FaceZones): boolean {
  if (!front) return false;
  const [right, left] = eyeCentres as [Point, Point];
  const [hidden, all] = [
    [0, 0],
    [0, 0],
  ] as [[number, number], [number, number]];
  for (let i = 0; i < eyeOpenings.data.length; i++) {
    if (!eyeOpenings.data[i]) continue;
    const [x, y] = [i % front.width, Math.floor(i / front.width)];
    const side = Math.hypot(x - right.x, y - right.y) < Math.hypot(x - left.x, y - left.y) ? 0 : 1;
    hidden[side] += front.data[i] as number;
    all[side]++;
  }
  return Math.max(hidden[0] / Math.max(1, all[0]), hidden[1] / Math.max(1, all[1])) > HIDDEN;
}
