import { coverAt, coverCrop } from '@semblance/vision/face-cover';
import type { Face } from '@semblance/vision/face-mesh';
import type { Point, RgbImage } from '@semblance/vision/picture';
import { grow, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { findCover, TARGET_COVER } from './cover.ts';
import type { FaceZones } from './face-zones.ts';

/** Probabilities of the network below which nothing covers a pixel, and from which something covers all of it. */
const COVERED = [0.25, 0.6] as const;

/** The coarse grid on which a target is analysed. */
export interface WorkGrid {
  /** Place of its first pixel in the picture, and picture pixels per pixel of the grid. */
  readonly originX: number;
  readonly originY: number;
  readonly scale: number;
  readonly width: number;
  readonly height: number;
}

/** Returns the share of each work pixel that the network finds covered. */
export function frontOf(
  cover: Plane,
  face: Face,
  { originX, originY, scale, width, height }: WorkGrid,
): Plane {
  const crop = coverCrop(face);
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) {
    const x = originX + ((i % width) + 0.5) * scale;
    const y = originY + (Math.floor(i / width) + 0.5) * scale;
    out.data[i] = smoothstep(COVERED[0], COVERED[1], coverAt(cover, crop, x, y));
  }
  return out;
}

/** Shares of the bridge of the nose, of the area of each lens and of each eye by which a frame is told. */
const BRIDGE = 0.05;
const LENS = 0.06;
const EYE = 0.5;

/** What lies in front of a target. */
export interface TargetCover {
  /** Share of each pixel that stays because of it. */
  readonly covered: Plane;
  /** 1 where surely nothing does. */
  readonly clean: Plane;
  /** Whether it wears glasses through which its eyes are seen. */
  readonly framed: boolean;
}

/**
 * Returns what lies in front of a target.
 * @param inFront what the network finds in front of the face; undefined: it was not asked
 */
export function targetCover(
  target: RgbImage,
  zones: FaceZones,
  faceWidth: number,
  inFront: Plane | undefined,
): TargetCover {
  const { front, frame, clean, hasGlasses } = findCover(target, zones, faceWidth, TARGET_COVER);
  const framed = inFront ? isFrame(inFront, zones) || (hasGlasses && !isDark(inFront, zones)) : hasGlasses;
  const out = plane(target.width, target.height);
  // What is seen through a lens is mixed with nothing.
  const eyes = framed ? grow(zones.eyeOpenings, 0.01 * faceWidth) : undefined;
  for (let i = 0; i < out.data.length; i++) {
    const found = inFront?.data[i] ?? 0;
    const through = 1 - (eyes?.data[i] ?? 0);
    out.data[i] = through * Math.max(front.data[i] as number, frame.data[i] as number, found);
    if (found > 0.02) clean.data[i] = 0;
  }
  return { covered: out, clean, framed };
}

/** Returns whether what covers a face crosses the nose and surrounds both eyes, but does not hide them. */
function isFrame(front: Plane, zones: FaceZones): boolean {
  if (shareOf(front, zones.noseRoot) < BRIDGE || isDark(front, zones)) return false;
  return Math.min(...halves(front, zones.glasses, zones)) > LENS;
}

/** Returns whether an eye is hidden, as by a dark lens or a hand. */
function isDark(front: Plane, zones: FaceZones): boolean {
  return Math.max(...halves(front, zones.eyeOpenings, zones)) > EYE;
}

function shareOf(front: Plane, zone: Plane): number {
  let [all, covered] = [0, 0];
  for (let i = 0; i < zone.data.length; i++) {
    all += zone.data[i] as number;
    covered += (zone.data[i] as number) * (front.data[i] as number);
  }
  return covered / Math.max(1, all);
}

/** Returns the covered share of a zone on the side of each eye. */
function halves(front: Plane, zone: Plane, { eyeCentres }: FaceZones): [number, number] {
  const [right, left] = eyeCentres as [Point, Point];
  const sums = [0, 0, 0, 0] as [number, number, number, number];
  for (let i = 0; i < zone.data.length; i++) {
    if (!zone.data[i]) continue;
    const [x, y] = [i % zone.width, Math.floor(i / zone.width)];
    const side = Math.hypot(x - right.x, y - right.y) < Math.hypot(x - left.x, y - left.y) ? 0 : 1;
    sums[side] += front.data[i] as number;
    sums[side + 2] = (sums[side + 2] as number) + 1;
  }
  return [sums[0] / Math.max(1, sums[2]), sums[1] / Math.max(1, sums[3])];
}
