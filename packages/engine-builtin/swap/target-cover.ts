import { coverAt, coverCrop } from '@semblance/vision/face-cover';
import type { Face } from '@semblance/vision/face-mesh';
import type { RgbImage } from '@semblance/vision/picture';
import { type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { findCover, TARGET_COVER } from './cover.ts';
import type { FaceZones } from './face-zones.ts';

/** Probabilities of the network below which nothing covers a pixel, and from which something covers all of it. */
export const COVERED = [0.25, 0.6] as const;

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

/**
 * Returns the share of each target pixel that stays because something lies in front of the face, and where surely
 * nothing does.
 * @param inFront what the network finds in front of the face; undefined: it was not asked
 */
export function targetCover(
  target: RgbImage,
  zones: FaceZones,
  faceWidth: number,
  inFront: Plane | undefined,
): { covered: Plane; clean: Plane } {
  const { front, frame, clean } = findCover(target, zones, faceWidth, TARGET_COVER);
  const out = plane(target.width, target.height);
  for (let i = 0; i < out.data.length; i++) {
    const found = inFront?.data[i] ?? 0;
    out.data[i] = Math.max(front.data[i] as number, frame.data[i] as number, found);
    if (found > 0.02) clean.data[i] = 0;
  }
  return { covered: out, clean };
}
