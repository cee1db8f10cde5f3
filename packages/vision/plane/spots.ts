import { blur, grow, type Plane, plane } from './plane.ts';

/** Removes marks thinner than twice `radius` (moles, wrinkles, single hairs) and softens the rest slightly. */
export function openSpots(mask: Plane, radius: number): Plane {
  const opened = grow(grow(mask, -radius), 2.2 * radius);
  const out = plane(mask.width, mask.height);
  for (let i = 0; i < out.data.length; i++)
    out.data[i] = (opened.data[i] as number) * (mask.data[i] as number);
  return blur(grow(out, radius), radius);
}
