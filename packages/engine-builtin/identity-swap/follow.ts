import { BODY, type BodyPoint, type Person, type PersonMask } from '@semblance/vision/person';
import { OneEuroFilter } from '../motion-transfer/one-euro.ts';
import { skeletonOf } from './skeleton.ts';

/**
 * Groups of points that move together, with their cut-off frequencies: base in Hz, and Hz per body size per second.
 */
const GROUPS = [
  { points: [BODY.leftShoulder, BODY.rightShoulder, BODY.leftHip, BODY.rightHip], atRest: 1.5, withSpeed: 9 },
  { points: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], atRest: 1.5, withSpeed: 10 },
  { points: [13, 15, 17, 19, 21], atRest: 2, withSpeed: 9 },
  { points: [14, 16, 18, 20, 22], atRest: 2, withSpeed: 9 },
  { points: [25, 27, 29, 31], atRest: 1.5, withSpeed: 9 },
  { points: [26, 28, 30, 32], atRest: 1.5, withSpeed: 9 },
] as const;
const DEPTH = { atRest: 1, withSpeed: 1 };

/** Smooths a person's points from frame to frame. */
export class PointSmoother {
  readonly #filters = GROUPS.map(({ atRest, withSpeed }) => new OneEuroFilter({ atRest, withSpeed }));
  readonly #depths = new OneEuroFilter(DEPTH);
  #size: number | undefined;

  smooth(points: readonly BodyPoint[], ptsUs: number): BodyPoint[] {
    const { size } = skeletonOf(points);
    // The size is fixed once: lengths in a changing unit would change by themselves.
    this.#size ??= size;
    const unit = this.#size;
    const out = points.slice();
    GROUPS.forEach(({ points: group }, g) => {
      const filter = this.#filters[g] as OneEuroFilter;
      const values = filter.filter(
        group.flatMap((i) => [(points[i] as BodyPoint).x / unit, (points[i] as BodyPoint).y / unit]),
        ptsUs,
      );
      group.forEach((i, k) => {
        out[i] = {
          ...(out[i] as BodyPoint),
          x: (values[2 * k] as number) * unit,
          y: (values[2 * k + 1] as number) * unit,
        };
      });
    });
    const depths = this.#depths.filter(
      points.map(({ z }) => z / unit),
      ptsUs,
    );
    return out.map((point, i) => ({ ...point, z: (depths[i] as number) * unit }));
  }
}

/** Interpolates between two sightings of a person. @param t 0 is `a`, 1 is `b` */
export function between(a: Person, b: Person, t: number): Person {
  const mixed = (p: number, q: number): number => p + (q - p) * t;
  const points = a.points.map((p, i): BodyPoint => {
    const q = b.points[i] as BodyPoint;
    return {
      x: mixed(p.x, q.x),
      y: mixed(p.y, q.y),
      z: mixed(p.z, q.z),
      visibility: mixed(p.visibility, q.visibility),
      presence: mixed(p.presence, q.presence),
    };
  });
  const near = t < 0.5 ? a : b;
  const [from, to] = [skeletonOf(near.points), skeletonOf(points)];
  const { region } = near.mask;
  const moved = {
    ...region,
    x: region.x + to.shoulders.x - from.shoulders.x,
    y: region.y + to.shoulders.y - from.shoulders.y,
  };
  return { ...near, points, mask: { ...near.mask, region: moved } };
}

/** Returns a person in pixels of a picture that is `scale` times as large. */
export function scaledPerson(person: Person, scale: number): Person {
  return {
    ...person,
    points: person.points.map((p) => ({ ...p, x: p.x * scale, y: p.y * scale, z: p.z * scale })),
    mask: scaledMask(person.mask, scale),
    next: {
      ...person.next,
      x: person.next.x * scale,
      y: person.next.y * scale,
      size: person.next.size * scale,
    },
  };
}

export function scaledMask(mask: PersonMask, scale: number): PersonMask {
  const { x, y, size, angle } = mask.region;
  return { ...mask, region: { x: x * scale, y: y * scale, size: size * scale, angle } };
}

/** Returns a person in pixels of a picture with another origin. */
export function movedPerson(person: Person, dx: number, dy: number): Person {
  const moved = <T extends { readonly x: number; readonly y: number }>(at: T): T => ({
    ...at,
    x: at.x + dx,
    y: at.y + dy,
  });
  return {
    ...person,
    points: person.points.map(moved),
    mask: { ...person.mask, region: moved(person.mask.region) },
    next: moved(person.next),
  };
}
