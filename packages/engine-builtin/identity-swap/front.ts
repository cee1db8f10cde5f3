import { distanceInside, fillPolygon, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import type { Planes } from '../animate/openings.ts';
import { add, sub, times, unit } from './geometry.ts';
import { LIMB_RADIUS, torsoOutline } from './segment.ts';
import type { Skeleton } from './skeleton.ts';

/** Share of the width of torso and legs that belongs to the person in any clothes. */
const CORE = 0.62;
/** Distance from the person's mask, in body sizes, beyond which something hides the expected body. */
const AWAY = 0.07;
/**
 * Share of that distance that is undone at the edge of the hiding object: beside the person the character may be
 * broader.
 */
const EDGE = 0.8;
/** Share of the core that must be hidden; a smaller one is an error of the mask. */
const LEAST = [0.03, 0.08] as const;
/** Change per frame of the belief that something is in front. It is slow because masks have gaps. */
const RISE = 0.2;
const FALL = 0.08;

/**
 * Finds objects that stand or are held in front of a person: places where trunk and legs must be and the mask is
 * not.
 */
export class ThingsInFront {
  #belief: number | undefined;

  /**
   * @param distance of each chroma pixel from the person
   * @param of the person's bones, in pixels of the frame
   * @returns share of each chroma pixel that is in front, 0–1; undefined when nothing is
   */
  look(distance: Plane, of: Skeleton): Plane | undefined {
    const { width, height } = distance;
    const body = plane(width, height);
    const half = (outline: readonly number[]): number[] => outline.map((value) => value / 2);
    fillPolygon(body, half(torsoOutline(of, CORE)));
    for (const limb of ['leftLeg', 'rightLeg'] as const) {
      const [hip, knee, ankle] = of.limbs[limb];
      for (const [from, to] of [
        [hip, knee],
        [knee, ankle],
      ] as const) {
        const along = unit(sub(to, from));
        const side = times({ x: -along.y, y: along.x }, CORE * LIMB_RADIUS[limb] * of.size);
        const corners = [add(from, side), add(to, side), sub(to, side), sub(from, side)];
        fillPolygon(body, half(corners.flatMap(({ x, y }) => [x, y])));
      }
    }
    const away = (AWAY * of.size) / 2;
    const free = plane(width, height, 1);
    let [all, hidden] = [0, 0];
    for (let i = 0; i < body.data.length; i++) {
      if ((body.data[i] as number) < 0.5) continue;
      all++;
      if ((distance.data[i] as number) < away) continue;
      hidden++;
      free.data[i] = 0;
    }
    const sure = smoothstep(LEAST[0], LEAST[1], hidden / Math.max(1, all));
    const before = this.#belief ?? sure;
    const belief = before + (sure > before ? RISE : FALL) * (sure - before);
    this.#belief = belief;
    if (hidden === 0 || belief < 0.02) return undefined;
    const fromHidden = distanceInside(free, false);
    // The hidden area begins that far behind the edge of the object, so the edge is moved back towards the person.
    for (let i = 0; i < free.data.length; i++) {
      const [person, core] = [distance.data[i] as number, fromHidden.data[i] as number];
      free.data[i] = person === 0 ? 0 : belief * smoothstep(0, 3, person - core + EDGE * away);
    }
    return free;
  }
}

/** Lays one frame over another. @param share of the upper frame in each chroma pixel, 0–1 */
export function putOver(under: Planes, over: Planes, share: Plane): void {
  const { width, height, data } = share;
  const put = (to: Uint8Array, from: Uint8Array, at: number, part: number): void => {
    const value = to[at] as number;
    to[at] = value + ((from[at] as number) - value) * part + 0.5;
  };
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      const part = data[i] as number;
      if (part < 0.004) continue;
      put(under.u.data, over.u.data, i, part);
      put(under.v.data, over.v.data, i, part);
      const o = 2 * (y * under.y.width + x);
      for (const at of [o, o + 1, o + under.y.width, o + under.y.width + 1]) {
        put(under.y.data, over.y.data, at, part);
      }
    }
  }
}
