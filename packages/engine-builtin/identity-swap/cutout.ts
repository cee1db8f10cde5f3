import type { Picture } from '@semblance/engine-api/picture';
import { rgbToRegion } from '@semblance/media/yuv';
import type { BodyPoint, Person, PersonMask } from '@semblance/vision/person';
import { type CropTransform, cropRgb, type RgbImage } from '@semblance/vision/picture';
import { pushPull } from '@semblance/vision/plane/fill';
import {
  blur,
  fillPolygon,
  grow,
  type Plane,
  plane,
  sample,
  smoothstep,
} from '@semblance/vision/plane/plane';
import type { Planes } from '../animate/openings.ts';
import { planesOf } from '../animate/yuv.ts';
import type { Colors } from '../video-swap/frame-part.ts';
import { mix, toSegment } from './geometry.ts';
import { lumaOf, matteOf } from './matte.ts';
import { bonesOf, LIMB_RADIUS, labelOf, type Reach, segment, TRUNK, torsoOutline } from './segment.ts';
import { type Joint, LIMBS, type Limb, type Skeleton, showsHips, skeletonOf } from './skeleton.ts';

/** Size of the body, in pixels, at which its parts are segmented. */
const PARTS_SIZE = 64;
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

/** Returns a plane at a smaller size; each pixel is the mean of the area that it covers. */
function resized(from: Plane, width: number, height: number): Plane {
  const sigma = (0.4 * from.width) / width;
  const soft = sigma > 0.6 ? blur(from, sigma) : from;
  const out = plane(width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      out.data[y * width + x] = sample(
        soft,
        ((x + 0.5) * from.width) / width,
        ((y + 0.5) * from.height) / height,
      );
    }
  }
  return out;
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

/** Labels at full size. */
interface Parts {
  readonly width: number;
  readonly height: number;
  readonly labels: Uint8Array;
  readonly factor: number;
}

function partsOf(matte: Plane, image: RgbImage, points: readonly BodyPoint[], reach: Reach): Parts {
  const factor = Math.max(1, skeletonOf(points).size / PARTS_SIZE);
  const [w, h] = [Math.ceil(matte.width / factor), Math.ceil(matte.height / factor)];
  const luma = resized(lumaOf(image), w, h);
  const skeleton = skeletonOf(scaledPoints(points, w / matte.width));
  const labels = segment(resized(matte, w, h), luma, skeleton, reach);
  return { width: matte.width, height: matte.height, labels, factor };
}

/** Returns body points on a grid that is coarser by `f`. */
function scaledPoints(points: readonly BodyPoint[], f: number): BodyPoint[] {
  return points.map((p) => ({ ...p, x: p.x * f, y: p.y * f, z: p.z * f }));
}

/** Returns where a label is, 0–1 with soft edges, at full size. */
function plane01({ width, height, labels, factor }: Parts, wanted: (label: number) => boolean): Plane {
  const [w, h] = [Math.ceil(width / factor), Math.ceil(height / factor)];
  const small = plane(w, h);
  for (let i = 0; i < small.data.length; i++) small.data[i] = wanted(labels[i] as number) ? 1 : 0;
  const soft = blur(small, 1.5);
  const out = plane(width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      out.data[y * width + x] = sample(soft, ((x + 0.5) * w) / width, ((y + 0.5) * h) / height);
    }
  }
  return out;
}

/**
 * Returns the opacity of each part. Parts overlap a little so that no gap opens at joints. Trunk and legs continue
 * behind the arms.
 */
function alphasOf(
  matte: Plane,
  parts: Parts,
  skeleton: Skeleton,
  { reach, checkpoint }: { reach: Reach; checkpoint: () => void },
): Plane[] {
  const { width, height } = matte;
  const { size, limbs } = skeleton;
  const trunk = plane01(parts, (l) => l === TRUNK);
  const torso = plane(width, height);
  fillPolygon(torso, torsoOutline(skeleton, 0.85));
  const behind = blur(torso, 0.03 * size);
  const out = [plane(width, height)];
  for (const limb of LIMBS) {
    checkpoint();
    const label = labelOf(limb);
    const soft = plane01(parts, (l) => l === label);
    const alpha = plane(width, height);
    const isArm = limb.endsWith('Arm');
    const [root] = limbs[limb];
    const radius = LIMB_RADIUS[limb] * size;
    const bones = bonesOf(skeleton, limb, reach[limb]);
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const i = y * width + x;
        const m = matte.data[i] as number;
        if (m === 0 || reach[limb] === 0) continue;
        let value = smoothstep(0.35, 0.6, soft.data[i] as number);
        const p = { x: x + 0.5, y: y + 0.5 };
        // An arm begins with a round end at the shoulder, over the trunk. A leg continues far up behind the trunk
        // and bends there with it.
        const end = Math.hypot(p.x - root.x, p.y - root.y) / radius;
        if (isArm) {
          const near = toSegment(p, root, mix(root, limbs[limb][1], 0.4)).distance / radius;
          value = Math.max(value, 1 - smoothstep(0.65, 1, near));
        } else {
          const mine = nearestLeg(skeleton, p) === limb;
          if (mine) value = Math.max(value, 1 - smoothstep(1, 1.3, end));
          // The place lies behind an arm, or behind a hand in front of the body.
          const near = Math.min(...bones.map(([a, b]) => toSegment(p, a, b).distance)) / radius;
          value = Math.max(value, 1 - smoothstep(0.5, 0.8, near));
        }
        alpha.data[i] = m * value;
      }
    }
    out.push(alpha);
  }
  const first = out[0] as Plane;
  for (let i = 0; i < first.data.length; i++) {
    const own = Math.max(smoothstep(0.15, 0.45, trunk.data[i] as number), behind.data[i] as number);
    first.data[i] = (matte.data[i] as number) * own;
  }
  return out;
}

function nearestLeg({ limbs }: Skeleton, p: { x: number; y: number }): Limb {
  const far = (limb: Limb): number => toSegment(p, limbs[limb][0], limbs[limb][1]).distance;
  return far('leftLeg') <= far('rightLeg') ? 'leftLeg' : 'rightLeg';
}
