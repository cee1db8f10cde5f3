import { type Plane, smoothstep } from '@semblance/vision/plane/plane';
import type { Planes } from '../animate/openings.ts';
import type { Cutout } from './cutout.ts';
import { dot, length, sub, unit, type Vec } from './geometry.ts';
import { headRadius, type Skeleton } from './skeleton.ts';

/** Brightness and chroma. */
type Colour = [y: number, u: number, v: number];

/** Weight of each new observation of a colour. Clothes do not change from frame to frame. */
const LEARNING = 0.1;
/** Weight of brightness relative to chroma. Folds are darker, so brightness says less. */
const LIGHTNESS = 0.35;
/** Colour distances from the clothes: below the first a pixel belongs to them, above the second it does not. */
const LIKE = [28, 48] as const;
/** Largest depth of folds that is kept on other clothes. */
const FOLDS = 1.15;

/**
 * Gives the remaining clothes on the person's trunk and arms the colour of the character's clothes. So a character
 * whose picture ends at the chest wears the same below. Skin stays.
 */
export class ClothesDyer {
  #worn: Colour | undefined;
  #skin: Colour | undefined;
  readonly #own: Colour | undefined;

  constructor(cutout: Cutout) {
    this.#own = ownClothes(cutout);
  }

  /**
   * @param where share of each chroma pixel that is remaining trunk or arm, 0–1
   * @param distance of each chroma pixel from the person
   */
  dye(frame: Planes, where: Plane, of: Skeleton, distance: Plane): void {
    this.#look(frame, of, distance);
    const [own, worn, skin] = [this.#own, this.#worn, this.#skin];
    if (!own || !worn || !skin) return;
    const { width, height } = where;
    const deep = Math.min(FOLDS, Math.max(0.4, own[0] / Math.max(1, worn[0])));
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const i = y * width + x;
        const part = (where.data[i] as number) * (1 - smoothstep(0, 2.5, distance.data[i] as number));
        if (part < 0.01) continue;
        const u = frame.u.data[i] as number;
        const v = frame.v.data[i] as number;
        const o = 2 * (y * frame.y.width + x);
        const light = frame.y.data[o] as number;
        const cloth = Math.hypot(u - worn[1], v - worn[2], LIGHTNESS * (light - worn[0]));
        const bare = Math.hypot(u - skin[1], v - skin[2], LIGHTNESS * (light - skin[0]));
        const likely = smoothstep(-0.2, 0.2, (bare - cloth) / Math.max(4, bare + cloth));
        const share = part * likely * (1 - smoothstep(LIKE[0], LIKE[1], cloth));
        if (share < 0.01) continue;
        frame.u.data[i] = u + share * (own[1] - worn[1]) + 0.5;
        frame.v.data[i] = v + share * (own[2] - worn[2]) + 0.5;
        for (const at of [o, o + 1, o + frame.y.width, o + frame.y.width + 1]) {
          const was = frame.y.data[at] as number;
          const dyed = Math.min(235, Math.max(16, own[0] + deep * (was - worn[0])));
          frame.y.data[at] = was + share * (dyed - was) + 0.5;
        }
      }
    }
  }

  /** Learns the colours of the person's clothes and skin. */
  #look(frame: Planes, of: Skeleton, distance: Plane): void {
    const up = unit(sub(of.shoulders, of.hips));
    const tall = Math.max(1, length(sub(of.shoulders, of.hips)));
    const wide = 0.7 * Math.max(length(of.shoulderSide), 0.1 * tall);
    const side = { x: -up.y, y: up.x };
    const torso = meanOf(frame, of.shoulders, of.hips, distance, (d) => {
      const along = 1 + dot(d, up) / tall;
      return along > 0.15 && along < 0.8 && Math.abs(dot(d, side)) < wide;
    });
    const radius = headRadius(of);
    const face = meanOf(frame, of.head, of.chin, distance, (d) => Math.hypot(d.x, d.y) < 0.5 * radius);
    this.#worn = learnt(this.#worn, torso);
    this.#skin = learnt(this.#skin, face);
  }
}

function learnt(before: Colour | undefined, now: Colour | undefined): Colour | undefined {
  if (!before || !now) return before ?? now;
  return before.map((value, k) => value + LEARNING * ((now[k] as number) - value)) as Colour;
}

/**
 * Returns the mean colour of the person's pixels around two points that `rule` accepts by their distance from the
 * first.
 */
function meanOf(
  frame: Planes,
  from: Vec,
  to: Vec,
  distance: Plane,
  takes: (d: Vec) => boolean,
): Colour | undefined {
  const reach = length(sub(to, from)) + 4;
  const { width, height, data } = distance;
  const sum: Colour = [0, 0, 0];
  let count = 0;
  const bound = (value: number, most: number): number => Math.min(most, Math.max(0, Math.floor(value / 2)));
  for (let y = bound(from.y - reach, height); y < bound(from.y + reach, height); y += 2) {
    for (let x = bound(from.x - reach, width); x < bound(from.x + reach, width); x += 2) {
      const i = y * width + x;
      if (data[i] !== 0 || !takes({ x: 2 * x + 1 - from.x, y: 2 * y + 1 - from.y })) continue;
      sum[0] += frame.y.data[2 * (y * frame.y.width + x)] as number;
      sum[1] += frame.u.data[i] as number;
      sum[2] += frame.v.data[i] as number;
      count++;
    }
  }
  return count < 12 ? undefined : (sum.map((value) => value / count) as Colour);
}

/** Returns the colour of the character's clothes at the end of its picture. */
function ownClothes({ armless, alphas, skeleton, cutAlong, width, height }: Cutout): Colour | undefined {
  const up = unit(sub(skeleton.shoulders, skeleton.hips));
  const tall = Math.max(1, length(sub(skeleton.shoulders, skeleton.hips)));
  const low = Math.max(0.1, cutAlong);
  const trunk = alphas[0] as Plane;
  const sum: Colour = [0, 0, 0];
  let count = 0;
  for (let y = 0; y < height; y += 2) {
    for (let x = 0; x < width; x += 2) {
      const along = dot(sub({ x, y }, skeleton.hips), up) / tall;
      if ((trunk.data[y * width + x] as number) < 0.9 || along < low || along > low + 0.35) continue;
      const c = (y >> 1) * armless.u.width + (x >> 1);
      sum[0] += armless.y.data[y * width + x] as number;
      sum[1] += armless.u.data[c] as number;
      sum[2] += armless.v.data[c] as number;
      count++;
    }
  }
  return count < 50 ? undefined : (sum.map((value) => value / count) as Colour);
}
