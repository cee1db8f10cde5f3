import type { PersonMask } from '@semblance/vision/person';
import { maskInPicture } from '@semblance/vision/person-mask';
import { type CropTransform, cropRgb, type RgbImage } from '@semblance/vision/picture';
import { distanceInside, type Plane, plane, sample, smoothstep } from '@semblance/vision/plane/plane';
import { guidedLine, learnMatte } from '../animate/matte.ts';
import { scaledMask } from './follow.ts';
import { toSegment } from './geometry.ts';
import { bonesOf, type Reach } from './segment.ts';
import { LIMBS, type Skeleton } from './skeleton.ts';

/** Size of the body, in pixels, at which its edge is refined. */
const MATTE_SIZE = 150;
/** Largest hole, in squared body sizes, that is a dark or bright spot of the person. */
const SPOT = 0.012;
/** Squared longer side of a hole over its area, from which the hole is a gap. */
const LONG = 4;

/**
 * Refines the network's mask: removes background colours that are not the person's (as between an arm and the
 * body), and moves its edge to the edge in the picture.
 */
export function matteOf(
  image: RgbImage,
  mask: PersonMask,
  skeleton: Skeleton,
  reach: Reach,
  checkpoint: () => void,
): Plane {
  const { width, height } = image;
  const { size } = skeleton;
  const factor = Math.max(1, size / MATTE_SIZE);
  const [w, h] = [Math.max(2, Math.ceil(width / factor)), Math.max(2, Math.ceil(height / factor))];
  const crop: CropTransform = { scale: factor, angle: 0, originX: 0, originY: 0 };
  const pixels = Uint8Array.from(image.data);
  const small = cropRgb({ width, height, channels: 3, data: pixels }, crop, w, h);
  const moved = scaledMask(mask, 1 / factor);
  const expected = expectedIn(maskInPicture(moved, w, h), w, h, skeleton, reach, factor);
  const radius = Math.max(2, (0.7 * moved.region.size) / mask.side);
  checkpoint();
  const matte = learnMatte(small, expected, radius, checkpoint);
  fillSpots(matte, SPOT * (size / factor) ** 2);
  const { slope, offset } = guidedLine(lumaOf(small), matte, Math.max(2, 0.02 * MATTE_SIZE), 30);
  const luma = lumaOf(image);
  const out = plane(width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      const [u, v] = [((x + 0.5) * w) / width, ((y + 0.5) * h) / height];
      const value = sample(slope, u, v) * (luma.data[i] as number) + sample(offset, u, v);
      out.data[i] = smoothstep(0.25, 0.75, value);
    }
  }
  return out;
}

/** Returns the network's mask as log odds, and where it is certain. */
function expectedIn(
  bytes: Uint8Array,
  width: number,
  height: number,
  skeleton: Skeleton,
  reach: Reach,
  factor: number,
): { prior: Plane; certain: Plane } {
  const prior = plane(width, height);
  const certain = plane(width, height);
  const inside = plane(width, height);
  const outside = plane(width, height);
  for (let i = 0; i < bytes.length; i++) {
    inside.data[i] = (bytes[i] as number) > 127 ? 1 : 0;
    outside.data[i] = (bytes[i] as number) > 40 ? 0 : 1;
  }
  const depth = distanceInside(inside, false);
  const far = distanceInside(outside, false);
  const size = skeleton.size / factor;
  const bones = [
    [skeleton.hips, skeleton.shoulders],
    [skeleton.shoulders, skeleton.head],
    ...LIMBS.flatMap((limb) => bonesOf(skeleton, limb, reach[limb])),
  ] as const;
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      const m = (bytes[i] as number) / 255;
      // The deeper inside the mask, the more certain: wrong areas are narrow. Outside there may be other people.
      const inwards = Math.min(0.8, ((depth.data[i] as number) / size) * 6);
      const outwards = Math.min(5, ((far.data[i] as number) / size) * 80);
      prior.data[i] = 4.4 * m - 2.2 + inwards - outwards;
      if ((far.data[i] as number) > 0.12 * size) certain.data[i] = -1;
      else if (m > 0.6) {
        const p = { x: (x + 0.5) * factor, y: (y + 0.5) * factor };
        const near = bones.some(([a, b]) => toSegment(p, a, b).distance < 0.03 * skeleton.size);
        if (near) certain.data[i] = 1;
      }
    }
  }
  return { prior, certain };
}

/** Fills small enclosed holes, but not long ones as between the legs or between an arm and the body. */
function fillSpots({ width, height, data }: Plane, most: number): void {
  const seen = new Uint8Array(data.length);
  for (let start = 0; start < data.length; start++) {
    if (seen[start] || (data[start] as number) >= 0.5) continue;
    const hole = [start];
    seen[start] = 1;
    let open = false;
    let [left, right, bottom] = [width, 0, 0];
    const top = Math.floor(start / width);
    for (let k = 0; k < hole.length; k++) {
      const i = hole[k] as number;
      const x = i % width;
      const y = (i - x) / width;
      left = Math.min(left, x);
      right = Math.max(right, x + 1);
      bottom = y + 1 > bottom ? y + 1 : bottom;
      if (x === 0 || y === 0 || x === width - 1 || y === height - 1) {
        open = true;
        continue;
      }
      for (const next of [i - 1, i + 1, i - width, i + width]) {
        if (seen[next] || (data[next] as number) >= 0.5) continue;
        seen[next] = 1;
        hole.push(next);
      }
    }
    const long = Math.max(right - left, bottom - top) ** 2 > LONG * hole.length;
    if (!open && !long && hole.length < most) for (const i of hole) data[i] = 1;
  }
}

/** Returns the brightness of an image. */
export function lumaOf({ width, height, data }: RgbImage): Plane {
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) {
    out.data[i] =
      0.2126 * (data[i * 3] as number) +
      0.7152 * (data[i * 3 + 1] as number) +
      0.0722 * (data[i * 3 + 2] as number);
  }
  return out;
}
