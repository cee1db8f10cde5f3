import { type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import type { Cutout } from './cutout.ts';
import { dot, length, sub, toSegment, unit, type Vec } from './geometry.ts';
import { LIMB_RADIUS } from './segment.ts';
import { LIMBS, type Limb, type Skeleton } from './skeleton.ts';

/** Tells whether a character's picture shows all of a body that is ever drawn. */
export function isWhole({ reach, cutAlong }: Cutout): boolean {
  return cutAlong === -Infinity && LIMBS.every((limb) => reach[limb] === 3);
}

/** From where to where on its upper arm a character's shoulder goes over into the person's arm. */
const SHOULDER = [0.35, 0.7] as const;

/** Holds what of the person stays in a frame. */
export interface Kept {
  /** How much of each chroma pixel stays, 0–1. */
  readonly stays: Plane;
  /** The part of that which lies in front of the character: arms. */
  readonly front: Plane;
  /** The part of it that clothes of the trunk cover: arms, and the trunk itself down to the hips. */
  readonly clothed: Plane;
}

/** Part of the reference's body that has no counterpart on the character's picture. */
interface Lacking {
  readonly limb: Limb;
  readonly bones: readonly (readonly [Vec, Vec])[];
}

/**
 * Returns what of the person of a frame has no counterpart on the character's picture, and so stays as it is: limbs
 * that the picture does not show, and the body below where it ends.
 * @param distance of each chroma pixel from the person
 * @param of the person's bones, pixels of the frame
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
      // The trunk reaches as far as it is wide; its bones do not.
      near = Math.min(near, Math.max(0, toSegment(p, of.hips, of.head).distance / (0.3 * size)));
      for (const { limb, bones } of lacking) {
        if (bones.length === 0) continue;
        const far = nearest(p, [{ limb, bones }], size);
        const share = smoothstep(-0.15, 0.15, near - far);
        if (share === 0 || far > 2.5) continue;
        stay = Math.max(stay, share);
        if (!limb.endsWith('Arm')) continue;
        clothed.data[i] = Math.max(clothed.data[i] as number, share);
        // The shoulder and what is next to it lie behind the character's own.
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
  // Legs below a trunk that ends early stay with it.
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
