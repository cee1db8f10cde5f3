import type { BodyPoint } from '@semblance/vision/person';
import type { RgbImage } from '@semblance/vision/picture';
import { blur, fillPolygon, type Plane, plane, sample, smoothstep } from '@semblance/vision/plane/plane';
import { mix, toSegment } from './geometry.ts';
import { lumaOf } from './matte.ts';
import { bonesOf, LIMB_RADIUS, labelOf, type Reach, segment, TRUNK, torsoOutline } from './segment.ts';
import { LIMBS, type Limb, type Skeleton, skeletonOf } from './skeleton.ts';

/** Size of the body, in pixels, at which its parts are segmented. */
const PARTS_SIZE = 64;

/** Labels at full size. */
export interface Parts {
  readonly width: number;
  readonly height: number;
  readonly labels: Uint8Array;
  readonly factor: number;
}

/** Segments a body into trunk and limbs. */
export function partsOf(matte: Plane, image: RgbImage, points: readonly BodyPoint[], reach: Reach): Parts {
  const factor = Math.max(1, skeletonOf(points).size / PARTS_SIZE);
  const [w, h] = [Math.ceil(matte.width / factor), Math.ceil(matte.height / factor)];
  const luma = resized(lumaOf(image), w, h);
  const skeleton = skeletonOf(scaledPoints(points, w / matte.width));
  const labels = segment(resized(matte, w, h), luma, skeleton, reach);
  return { width: matte.width, height: matte.height, labels, factor };
}

/** Returns body points on a grid that is coarser by `f`. */
export function scaledPoints(points: readonly BodyPoint[], f: number): BodyPoint[] {
  return points.map((p) => ({ ...p, x: p.x * f, y: p.y * f, z: p.z * f }));
}

/** Returns a plane at another size; when that is smaller, each pixel is the mean of the area that it covers. */
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

/** Returns where a label is, 0–1 with soft edges, at full size. */
export function plane01({ width, height, labels, factor }: Parts, wanted: (label: number) => boolean): Plane {
  const [w, h] = [Math.ceil(width / factor), Math.ceil(height / factor)];
  const small = plane(w, h);
  for (let i = 0; i < small.data.length; i++) small.data[i] = wanted(labels[i] as number) ? 1 : 0;
  return resized(blur(small, 1.5), width, height);
}

/**
 * Returns the opacity of each part. Parts overlap a little so that no gap opens at joints. Trunk and legs continue
 * behind the arms.
 */
export function alphasOf(
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
