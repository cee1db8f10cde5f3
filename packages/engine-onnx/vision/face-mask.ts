import { coverAt, coverCrop, shareCovered } from '@semblance/vision/face-cover';
import { type Face, pointOf } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { type CropTransform, toPicture } from '@semblance/vision/picture';
import {
  distanceInside,
  fillPolygon,
  type Plane,
  plane,
  sample,
  smoothstep,
} from '@semblance/vision/plane/plane';
import type { PasteMask } from './paste.ts';

/** Face width on the finest grid, in grid pixels. */
const GRID_WIDTH = 200;
/** Width of the band in which old and new are blended, as a share of the face width. */
const FEATHER = 0.08;
/**
 * Width of that band if only the crop is known, and width that is left out at the crop's edge, as shares of its
 * side.
 */
const BOX_FEATHER = 0.12;
const BOX_MARGIN = 0.08;
/**
 * Softness of the edge of a whole crop, as a share of its side: that of FaceFusion's `create_box_mask`
 * (`face_masker.py`) at its usual blur of 0.3, which is 1 from 15 % of the crop inwards.
 */
export const CROP_EDGE = { margin: 0, feather: 0.15 };
/** Width of the fade at the edge of a crop, as a share of its side. */
const EDGE_FEATHER = 0.05;

/**
 * Returns the mask of a face's outline in its picture, from its mesh: 0 outside, with a soft edge inside.
 * @param room how far the chin may fall below its present place, in pixels
 */
export function outlineMask(face: Face, room = 0): PasteMask {
  const scale = Math.max(1, face.width / GRID_WIDTH);
  const outline = outlineWithRoom(face, room);
  const originX = Math.floor(Math.min(...outline.map(({ x }) => x))) - 2;
  const originY = Math.floor(Math.min(...outline.map(({ y }) => y))) - 2;
  const width = Math.ceil((Math.max(...outline.map(({ x }) => x)) - originX) / scale) + 3;
  const height = Math.ceil((Math.max(...outline.map(({ y }) => y)) - originY) / scale) + 3;
  const inside = plane(width, height);
  fillPolygon(
    inside,
    outline.flatMap(({ x, y }) => [(x - originX) / scale, (y - originY) / scale]),
  );
  const depth = distanceInside(inside);
  const feather = (FEATHER * face.width) / scale;
  // The fade begins 1.5 grid pixels inside, so that interpolation does not reach beyond the outline.
  for (let i = 0; i < depth.data.length; i++) {
    inside.data[i] = smoothstep(0, feather, (depth.data[i] as number) - 1.5);
  }
  return { originX, originY, scale, share: inside };
}

/** Returns the outline, whose lower half is moved down with the head: the chin by all of `room`, the jaw's corners by little. */
function outlineWithRoom(face: Face, room: number): { x: number; y: number }[] {
  const outline = FACE_OVAL.map((index) => pointOf(face.points, index));
  if (room === 0) return outline;
  const [down, right] = [Math.cos(face.roll), -Math.sin(face.roll)];
  const heights = outline.map(({ x, y }) => right * x + down * y);
  const top = Math.min(...heights);
  const height = Math.max(...heights) - top;
  return outline.map(({ x, y }, i) => {
    const moved = room * smoothstep(0.5, 1, ((heights[i] as number) - top) / height);
    return { x: x + right * moved, y: y + down * moved };
  });
}

/**
 * Returns the inside of a crop without its edge, for a face with an unknown outline.
 * @param edge width that is left out, and width of the fade inside it, as shares of the crop's side
 */
export function boxMask(
  transform: CropTransform,
  size: number,
  edge = { margin: BOX_MARGIN, feather: BOX_FEATHER },
): PasteMask {
  const corners = [0, size].flatMap((x) => [0, size].map((y) => toPicture(transform, x, y)));
  const scale = Math.max(1, (transform.scale * size) / GRID_WIDTH);
  const originX = Math.floor(Math.min(...corners.map(({ x }) => x)));
  const originY = Math.floor(Math.min(...corners.map(({ y }) => y)));
  const width = Math.ceil((Math.max(...corners.map(({ x }) => x)) - originX) / scale);
  const height = Math.ceil((Math.max(...corners.map(({ y }) => y)) - originY) / scale);
  const share = plane(width, height);
  const { margin, feather } = edge;
  const kept = (t: number): number => smoothstep(margin, margin + feather, Math.min(t, 1 - t));
  overGrid({ originX, originY, scale, share }, transform, (x, y) => kept(x / size) * kept(y / size));
  return { originX, originY, scale, share };
}

/**
 * Restricts a mask to a crop of these pixels and fades it at the crop's edge, because there is no new face beyond
 * it.
 */
export function withinEdge(
  mask: PasteMask,
  transform: CropTransform,
  width: number,
  height = width,
): PasteMask {
  const share = { ...mask.share, data: mask.share.data.slice() };
  overGrid({ ...mask, share }, transform, (x, y, old) => {
    if (old === 0) return 0;
    const depth = Math.min(x, y, width - x, height - y) / Math.min(width, height);
    return old * smoothstep(0.005, EDGE_FEATHER, depth);
  });
  return { ...mask, share };
}

/** Restricts a mask to a field over the crop. */
export function withinCrop(mask: PasteMask, transform: CropTransform, field: Plane): PasteMask {
  const share = { ...mask.share, data: mask.share.data.slice() };
  overGrid({ ...mask, share }, transform, (x, y, old) =>
    // Nothing is known about the picture beyond the crop.
    old === 0 || x < 0 || y < 0 || x > field.width || y > field.height ? 0 : old * sample(field, x, y),
  );
  return { ...mask, share };
}

/**
 * Takes from a mask what is in front of the face.
 * @param cover what the shipped network finds in front of the face
 */
export function withoutCover(mask: PasteMask, face: Face, cover: Plane): PasteMask {
  const crop = coverCrop(face);
  const { originX, originY, scale, share } = mask;
  const data = share.data.map((old, i) => {
    if (old === 0) return 0;
    const x = originX + ((i % share.width) + 0.5) * scale;
    const y = originY + (Math.floor(i / share.width) + 0.5) * scale;
    return old * (1 - shareCovered(coverAt(cover, crop, x, y)));
  });
  return { ...mask, share: { ...share, data } };
}

function overGrid(
  mask: PasteMask,
  transform: CropTransform,
  value: (x: number, y: number, old: number) => number,
): void {
  const { share, originX, originY, scale } = mask;
  const cos = Math.cos(transform.angle) / transform.scale;
  const sin = Math.sin(transform.angle) / transform.scale;
  for (let y = 0, i = 0; y < share.height; y++) {
    const dy = originY + (y + 0.5) * scale - transform.originY;
    for (let x = 0; x < share.width; x++, i++) {
      const dx = originX + (x + 0.5) * scale - transform.originX;
      share.data[i] = value(cos * dx + sin * dy, -sin * dx + cos * dy, share.data[i] as number);
    }
  }
}
