import type { Picture } from '@semblance/engine-api/picture';
import { rgbToRegion } from '@semblance/media/yuv';
import type { Person, PersonMask } from '@semblance/vision/person';
import { type CropTransform, cropRgb } from '@semblance/vision/picture';
import { pushPull } from '@semblance/vision/plane/fill';
import { grow, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import type { Planes } from '../animate/openings.ts';
import { planesOf } from '../animate/yuv.ts';
import type { Colors } from '../video-swap/frame-part.ts';
import { alphasOf, partsOf, plane01, scaledPoints } from './cutout-parts.ts';
import { matteOf } from './matte.ts';
import type { Reach } from './segment.ts';
import { type Joint, LIMBS, type Limb, type Skeleton, showsHips, skeletonOf } from './skeleton.ts';

/** Smallest confidence of a joint that is drawn. */
const LEAST_SEEN = 0.5;

/** A character cut out of its picture and segmented into parts, ready to be drawn in other poses. */
export interface Cutout {
  readonly width: number;
  readonly height: number;
  /** Position of the cut-out in its picture. */
  readonly crop: CropTransform;
  readonly skeleton: Skeleton;
  readonly reach: Reach;
  /**
   * Height on the torso (0 hips, 1 shoulders) below which the picture ends; -Infinity when it shows the whole body.
   */
  readonly cutAlong: number;
  /** The character as it is, and without its arms; the content behind the arms is filled in. */
  readonly whole: Planes;
  readonly armless: Planes;
  /** Opacity of each part in each pixel: the trunk, then the limbs. */
  readonly alphas: readonly Plane[];
}

/**
 * @param picture RGB, 8 bits
 * @param size of the body on the cut-out in pixels, at most its size in the picture
 * @param own opacity of each pixel, 0–1, when the picture itself is a cut-out
 */
export function cutOut(
  picture: Picture,
  person: Person,
  options: {
    readonly size: number;
    readonly colors: Colors;
    readonly own?: Uint8Array;
    readonly checkpoint: () => void;
  },
): Cutout {
  const found = skeletonOf(person.points);
  const scale = Math.max(1, found.size / options.size);
  const box = boxOf(person, picture);
  const crop: CropTransform = { scale, angle: 0, originX: box.left, originY: box.top };
  const width = 2 * Math.max(1, Math.floor((box.right - box.left) / scale / 2));
  const height = 2 * Math.max(1, Math.floor((box.bottom - box.top) / scale / 2));
  const { checkpoint } = options;
  const image = cropRgb(picture, crop, width, height);
  checkpoint();
  const points = scaledPoints(
    person.points.map((p) => ({ ...p, x: p.x - box.left, y: p.y - box.top })),
    1 / scale,
  );
  const skeleton = skeletonOf(points);
  const bounds = {
    right: (picture.width - box.left) / scale,
    bottom: (picture.height - box.top) / scale,
    left: -box.left / scale,
    top: -box.top / scale,
  };
  const reach = reachOf(skeleton, bounds);
  const matte = options.own
    ? shrunkAlpha(options.own, picture, crop, width, height)
    : matteOf(image, movedMask(person.mask, box, scale), skeleton, reach, checkpoint);
  fadeAtBorders(matte, bounds, 0.1 * skeleton.size);
  checkpoint();
  const parts = partsOf(matte, image, points, reach);
  checkpoint();
  const armless = plane(width, height);
  const solid = plane(width, height);
  const arms = grow(
    plane01(parts, (l) => l === 1 || l === 2),
    0.035 * skeleton.size,
  );
  for (let i = 0; i < solid.data.length; i++) {
    const opaque = smoothstep(0.9, 0.995, matte.data[i] as number);
    solid.data[i] = opaque;
    armless.data[i] = opaque * (1 - (arms.data[i] as number));
  }
  const toPlanes = (known: Plane): Planes => {
    checkpoint();
    const filled = pushPull(image, known);
    checkpoint();
    const data = new Uint8Array((width * height * 3) / 2);
    rgbToRegion({ width, height, data }, { x: 0, y: 0, width, height }, filled.data, options.colors);
    return planesOf(data, width, height);
  };
  return {
    width,
    height,
    crop,
    skeleton,
    reach,
    cutAlong: cutOf(skeleton, bounds.bottom),
    whole: toPlanes(solid),
    armless: toPlanes(armless),
    alphas: alphasOf(matte, parts, skeleton, { reach, checkpoint }),
  };
}

/** Returns the part of the picture that contains the person, with a margin. */
function boxOf(
  person: Person,
  picture: Picture,
): { left: number; top: number; right: number; bottom: number } {
  const { data, side, region } = person.mask;
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  const [cos, sin] = [Math.cos(region.angle), Math.sin(region.angle)];
  for (let v = 0; v < side; v += 2) {
    for (let u = 0; u < side; u += 2) {
      if ((data[v * side + u] as number) < 40) continue;
      const a = ((u + 0.5) / side - 0.5) * region.size;
      const b = ((v + 0.5) / side - 0.5) * region.size;
      left = Math.min(left, region.x + cos * a - sin * b);
      right = Math.max(right, region.x + cos * a - sin * b);
      top = Math.min(top, region.y + sin * a + cos * b);
      bottom = Math.max(bottom, region.y + sin * a + cos * b);
    }
  }
  const margin = 0.04 * region.size;
  return {
    left: Math.max(0, Math.floor(left - margin)),
    top: Math.max(0, Math.floor(top - margin)),
    right: Math.min(picture.width, Math.ceil(right + margin)),
    bottom: Math.min(picture.height, Math.ceil(bottom + margin)),
  };
}

function movedMask(mask: PersonMask, box: { left: number; top: number }, scale: number): PersonMask {
  const { x, y, size, angle } = mask.region;
  return {
    ...mask,
    region: { x: (x - box.left) / scale, y: (y - box.top) / scale, size: size / scale, angle },
  };
}

function shrunkAlpha(
  own: Uint8Array,
  picture: Picture,
  crop: CropTransform,
  width: number,
  height: number,
): Plane {
  const grey: Picture = { width: picture.width, height: picture.height, channels: 1, data: own };
  const { data } = cropRgb(grey, crop, width, height);
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) out.data[i] = (data[i * 3] as number) / 255;
  return out;
}

/** Fades a body out where the border of the picture cuts it. */
function fadeAtBorders(
  matte: Plane,
  bounds: { left: number; top: number; right: number; bottom: number },
  reach: number,
): void {
  const { width, height } = matte;
  for (let y = 0; y < height; y++) {
    const down = smoothstep(0, reach, bounds.bottom - y - 0.5);
    for (let x = 0; x < width; x++) {
      const side = Math.min(x + 0.5 - bounds.left, bounds.right - x - 0.5);
      const i = y * width + x;
      matte.data[i] = (matte.data[i] as number) * down * smoothstep(0, 0.3 * reach, side);
    }
  }
}

function reachOf(
  { limbs }: Skeleton,
  { left, top, right, bottom }: { left: number; top: number; right: number; bottom: number },
): Reach {
  const shown = ({ x, y, seen }: Joint): boolean =>
    seen >= LEAST_SEEN && x > left && y > top && x < right && y < bottom;
  const out = {} as Record<Limb, 0 | 1 | 3>;
  for (const limb of LIMBS) {
    const [root, bend, end] = limbs[limb];
    if (!shown(root) || !shown(bend)) out[limb] = 0;
    else out[limb] = shown(end) ? 3 : 1;
  }
  return out;
}

function cutOf(skeleton: Skeleton, bottom: number): number {
  if (showsHips(skeleton, bottom)) return -Infinity;
  const { hips, shoulders, size } = skeleton;
  const along = (bottom - 0.05 * size - hips.y) / Math.min(-1, shoulders.y - hips.y);
  return along;
}
