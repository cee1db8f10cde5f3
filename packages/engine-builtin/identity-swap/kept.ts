import { type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import type { Cutout } from './cutout.ts';
import { dot, length, sub, toSegment, unit, type Vec } from './geometry.ts';
import { LIMB_RADIUS } from './segment.ts';
import { LIMBS, type Limb, type Skeleton } from './skeleton.ts';

/** Returns whether the character's picture shows every part of a body that is drawn. */
export function isWhole({ reach, cutAlong }: Cutout): boolean {
  return cutAlong === -Infinity && LIMBS.every((limb) => reach[limb] === 3);
}

/** Range on the upper arm in which the character's shoulder blends into the person's arm. */
const SHOULDER = [0.35, 0.7] as const;

/** The parts of the person that stay in a frame. */
export interface Kept {
  /** Share of each chroma pixel that stays, 0–1. */
  readonly stays: Plane;
  /** The part of it that lies in front of the character: arms. */
  readonly front: Plane;
  /** The part of it that the trunk's clothes cover: arms, and the trunk down to the hips. */
  readonly clothed: Plane;
}

/** A part of the person's body that the character's picture does not show. */
interface Lacking {
  readonly limb: Limb;
  readonly bones: readonly (readonly [Vec, Vec])[];
}

/**
 * Returns the parts of the person that the character's picture does not show, and that therefore stay: limbs, and
 * the body below the end of the picture.
 * @param distance of each chroma pixel from the person
 * @param of the person's bones, in pixels of the frame
 */
export function keptOf(cutout: Cutout, of: Skeleton, distance: Plane): Kept {
  const { width, height } = distance;
  const stays = plane(width, height);
  const front = plane(width, height);
  const clothed = plane(width, height);
  const { size } = of;
  const lacking = LIMBS.map((limb): Lacking => ({ limb, bones: lackingBones(cutout, of, limb) }));
  const present = presentBones(cutout, of);
  const up = unit(sub(of.shoulders, of.hips));
  const spine = Math.max(1, length(sub(of.shoulders, of.hips)));
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      if ((distance.data[i] as number) > 0.03 * size) continue;
      const p = { x: 2 * x + 1, y: 2 * y + 1 };
      const along = dot(sub(p, of.hips), up) / spine;
      let stay = cutout.cutAlong === -Infinity ? 0 : 1 - smoothstep(-0.06, 0.06, along - cutout.cutAlong);
      clothed.data[i] = stay * smoothstep(-0.25, -0.1, along);
      let near = nearest(p, present, size);
      // The trunk is as wide as this, while its bones are lines.
      near = Math.min(near, Math.max(0, toSegment(p, of.hips, of.head).distance / (0.3 * size)));
      for (const { limb, bones } of lacking) {
        if (bones.length === 0) continue;
        const far = nearest(p, [{ limb, bones }], size);
        const share = smoothstep(-0.15, 0.15, near - far);
        if (share === 0 || far > 2.5) continue;
        stay = Math.max(stay, share);
        if (!limb.endsWith('Arm')) continue;
        clothed.data[i] = Math.max(clothed.data[i] as number, share);
        // The shoulder and its surroundings lie behind the character's own shoulder.
        const [root, bend] = of.limbs[limb];
        const out = toSegment(p, root, bend).along;
        front.data[i] = Math.max(front.data[i] as number, share * smoothstep(SHOULDER[0], SHOULDER[1], out));
      }
      stays.data[i] = stay;
    }
  }
  return { stays, front, clothed };
}

function nearest(p: Vec, parts: readonly Lacking[], size: number): number {
  let best = Infinity;
  for (const { limb, bones } of parts) {
    for (const [a, b] of bones) {
      best = Math.min(best, toSegment(p, a, b).distance / (LIMB_RADIUS[limb] * size));
    }
  }
  return best;
}

function lackingBones({ reach, cutAlong }: Cutout, of: Skeleton, limb: Limb): (readonly [Vec, Vec])[] {
  // The legs stay with a trunk that ends early.
  if (limb.endsWith('Leg') && cutAlong > -Infinity) return [];
  const [a, b, c, d] = of.limbs[limb];
  if (reach[limb] === 3) return [];
  const outer = [
    [b, c],
    [c, d],
  ] as const;
  return reach[limb] === 1 ? [...outer] : [[a, b], ...outer];
}

function presentBones({ reach }: Cutout, of: Skeleton): Lacking[] {
  return LIMBS.map((limb) => {
    const [a, b, c, d] = of.limbs[limb];
    const bones = [
      [a, b],
      [b, c],
      [c, d],
    ] as const;
    return { limb, bones: bones.slice(0, reach[limb]) };
  });
}
