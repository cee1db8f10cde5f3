import { type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import { toSegment, type Vec } from './geometry.ts';
import type { HeadSpot } from './head-place.ts';

/** Height of the chin below the eyes at which the head ends downwards, in shares of the way to the chin. */
const LOW = [0.66, 0.86] as const;
/** Largest distance from the middle line at which a head reaches, in eye distances: above the ears, below them, and at the jaw. */
const WIDE = [2.2, 2.7] as const;
const LOW_WIDE = [1.45, 1.8] as const;
const JAW_WIDE = [1, 1.3] as const;

/** Half the width of a neck, in eye distances, and where on the way to the chin it begins behind the jaw. */
const NECK = [0.75, 0.95] as const;
const NECK_TOP = [0.3, 0.5] as const;
/** Heights on that way between which it widens from half of this, because the new jaw may be narrower. */
const NECK_WIDENS = [0.45, 0.95] as const;

/** Distance from the line between the shoulders, in eye distances, within which clothes stay. */
const SHOULDERS = [0.6, 0.9] as const;

/** Height below the eyes, in eye distances, above which the person's hair stays where the new head has none. */
const HAIR = [-0.6, 0] as const;

/**
 * Returns the share of each chroma pixel in which the person's head is erased; the neck stays.
 * @param distance of each chroma pixel from the person
 * @param chin distance of the chin from the eyes, in eye distances
 * @param neck from the shoulders to the middle of the head
 * @param shoulders the joints
 * @param keepsHair whether the person's hair stays, for a head that has none
 * @param edge distances from the person up to which it is erased fully, and from which not
 */
export function headHole(
  distance: Plane,
  spot: HeadSpot,
  {
    chin,
    neck,
    shoulders,
    keepsHair,
    edge,
  }: {
    readonly chin: number;
    readonly neck: readonly [Vec, Vec];
    readonly shoulders: readonly [Vec, Vec];
    readonly keepsHair: boolean;
    readonly edge: readonly [number, number];
  },
): Plane {
  const { width, height } = distance;
  const hole = plane(width, height);
  const { iod } = spot;
  const [cos, sin] = [Math.cos(spot.angle), Math.sin(spot.angle)];
  const reach = 4.5 * iod;
  const bound = (value: number, most: number): number => Math.min(most, Math.max(0, Math.floor(value / 2)));
  for (let y = bound(spot.y - reach, height); y < bound(spot.y + reach, height); y++) {
    for (let x = bound(spot.x - reach, width); x < bound(spot.x + reach, width); x++) {
      const i = y * width + x;
      const near = 1 - smoothstep(edge[0], edge[1], distance.data[i] as number);
      if (near === 0) continue;
      const [dx, dy] = [2 * x + 1 - spot.x, 2 * y + 1 - spot.y];
      const down = (dx * cos + dy * sin) / iod;
      const across = Math.abs(dy * cos - dx * sin) / iod;
      const low = smoothstep(0.25 * chin, 0.6 * chin, down);
      const jaw = smoothstep(0.6 * chin, 0.75 * chin, down);
      const wide = [0, 1].map((k) => {
        const above = (WIDE[k] as number) + ((LOW_WIDE[k] as number) - (WIDE[k] as number)) * low;
        return above + ((JAW_WIDE[k] as number) - above) * jaw;
      });
      const inside =
        (1 - smoothstep(LOW[0] * chin, LOW[1] * chin, down)) *
        (1 - smoothstep(wide[0] as number, wide[1] as number, across));
      const at = { x: 2 * x + 1, y: 2 * y + 1 };
      const beside = toSegment(at, neck[0], neck[1]).distance / iod;
      const widened = 0.5 + 0.5 * smoothstep(NECK_WIDENS[0] * chin, NECK_WIDENS[1] * chin, down);
      const behind =
        (1 - smoothstep(NECK[0] * widened, NECK[1] * widened, beside)) *
        smoothstep(NECK_TOP[0] * chin, NECK_TOP[1] * chin, down);
      const hair = keepsHair ? smoothstep(HAIR[0], HAIR[1], down) : 1;
      const away = toSegment(at, shoulders[0], shoulders[1]).distance / iod;
      const bare = smoothstep(SHOULDERS[0], SHOULDERS[1], away);
      hole.data[i] = near * inside * hair * (1 - behind) * bare;
    }
  }
  return hole;
}
