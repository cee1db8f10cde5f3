import type { Rgb } from './colour.ts';
import { add, dot, type HeadFrame, scale, sub, unit, type Vec } from './head-frame.ts';
import { cover, type Layer, samplePlace } from './layer.ts';

/** Cone with round ends, in units of the head. */
export interface Limb {
  readonly a: Vec;
  readonly b: Vec;
  readonly ra: number;
  readonly rb: number;
  /** Limbs of one chain melt into each other. */
  readonly chain: number;
  /** Radius over which it melts into the limbs before it in its chain. */
  readonly melt: number;
}

/** Place on the surface of a solid. */
export interface Hit {
  readonly at: Vec;
  readonly normal: Vec;
  /** Share of the sky that the place sees: 1 in the open, less in folds. */
  readonly open: number;
  /** Depth in face widths from the top of the nose. */
  readonly depth: number;
}

export interface Solid {
  /** Returns the distance of a place from the surface, negative inside; never more than the true one. */
  distance(x: number, y: number, z: number): number;
  /** Bounding sphere, so that rays that miss cost little. */
  readonly centre: Vec;
  readonly radius: number;
  colour(hit: Hit): Rgb | undefined;
}

/** Returns the smaller of two distances, rounded where they are closer than `k` (Quilez' polynomial minimum). */
function melted(a: number, b: number, k: number): number {
  const near = k - Math.abs(a - b);
  const least = a < b ? a : b;
  return near > 0 ? least - (0.25 * near * near) / k : least;
}

/** Returns the distance from a limb, and how far along it the nearest place is. */
function limbDistance(limb: Limb, x: number, y: number, z: number): { distance: number; along: number } {
  const { a, b } = limb;
  const [dx, dy, dz] = [b[0] - a[0], b[1] - a[1], b[2] - a[2]];
  const [px, py, pz] = [x - a[0], y - a[1], z - a[2]];
  const t = (px * dx + py * dy + pz * dz) / Math.max(1e-9, dx * dx + dy * dy + dz * dz);
  const along = Math.min(1, Math.max(0, t));
  const away = Math.hypot(px - along * dx, py - along * dy, pz - along * dz);
  return { distance: away - limb.ra - (limb.rb - limb.ra) * along, along };
}

/**
 * Returns a function for the distance from limbs: those of a chain melt by their own radius, chains into each other
 * by `join`. Limbs of one chain stand together.
 */
export function limbsDistance(limbs: readonly Limb[], join: number): Solid['distance'] {
  // Plain numbers in a row: this function takes nearly all of the time that drawing takes.
  const n = Float64Array.from(
    limbs.flatMap(({ a, b, ra, rb, melt }, k) => {
      const d = sub(b, a);
      const fresh = k === 0 || limbs[k - 1]?.chain !== limbs[k]?.chain;
      return [...a, ...d, 1 / Math.max(1e-9, dot(d, d)), ra, rb - ra, fresh ? -1 : melt];
    }),
  );
  return (x, y, z) => {
    let total = 1e9;
    let chain = 1e9;
    for (let i = 0; i < n.length; i += 10) {
      const px = x - (n[i] as number);
      const py = y - (n[i + 1] as number);
      const pz = z - (n[i + 2] as number);
      const dx = n[i + 3] as number;
      const dy = n[i + 4] as number;
      const dz = n[i + 5] as number;
      let t = (px * dx + py * dy + pz * dz) * (n[i + 6] as number);
      t = t < 0 ? 0 : t > 1 ? 1 : t;
      const qx = px - t * dx;
      const qy = py - t * dy;
      const qz = pz - t * dz;
      const away = Math.sqrt(qx * qx + qy * qy + qz * qz);
      const distance = away - (n[i + 7] as number) - (n[i + 8] as number) * t;
      const melt = n[i + 9] as number;
      if (melt < 0) {
        total = melted(total, chain, join);
        chain = distance;
      } else chain = melted(chain, distance, melt);
    }
    return melted(total, chain, join);
  };
}

/** Returns the limb nearest to a place, and how far along it. */
export function nearestLimb<T extends Limb>(limbs: readonly T[], at: Vec): { limb: T; along: number } {
  let best = { limb: limbs[0] as T, along: 0, distance: Infinity };
  for (const limb of limbs) {
    const found = limbDistance(limb, at[0], at[1], at[2]);
    if (found.distance < best.distance) best = { limb, ...found };
  }
  return best;
}

const STEPS = 48;
const NEAR = 0.0012;

/** Draws solids as a camera far away sees them: each ray steps by the distance to the nearest surface (Hart 1996). */
export function drawSolids(layer: Layer, head: HeadFrame, solids: readonly Solid[]): void {
  const { grid } = layer;
  const away = head.directionToHead([0, 0, 1]);
  const eye = -3 * head.width;
  for (let y = 0; y < grid.height; y++) {
    for (let x = 0; x < grid.width; x++) {
      const [px, py] = samplePlace(grid, x, y);
      const from = head.toHead([px, py, eye]);
      const found = firstHit(solids, from, away);
      if (!found) continue;
      const colour = found.solid.colour(found.hit);
      if (colour) cover(layer, y * grid.width + x, colour, 1);
    }
  }
}

function firstHit(solids: readonly Solid[], from: Vec, away: Vec): { solid: Solid; hit: Hit } | undefined {
  let best: { solid: Solid; at: Vec; depth: number } | undefined;
  for (const solid of solids) {
    const middle = dot(sub(solid.centre, from), away);
    const aside = sub(add(from, scale(away, middle)), solid.centre);
    const half = solid.radius ** 2 - dot(aside, aside);
    if (half < 0) continue;
    let depth = middle - Math.sqrt(half);
    const end = Math.min(middle + Math.sqrt(half), best?.depth ?? Infinity);
    for (let step = 0; step < STEPS && depth < end; step++) {
      const at = add(from, scale(away, depth));
      const distance = solid.distance(at[0], at[1], at[2]);
      if (distance < NEAR) {
        best = { solid, at, depth };
        break;
      }
      depth += distance;
    }
  }
  if (!best) return undefined;
  const { solid, at } = best;
  const normal = normalAt(solid, at);
  return { solid, hit: { at, normal, open: openness(solids, at, normal), depth: at[2] } };
}

/** Returns the normal from the distances at the corners of a small tetrahedron. */
function normalAt(solid: Solid, [x, y, z]: Vec): Vec {
  const e = 0.0015;
  const a = solid.distance(x + e, y - e, z - e);
  const b = solid.distance(x - e, y - e, z + e);
  const c = solid.distance(x - e, y + e, z - e);
  const d = solid.distance(x + e, y + e, z + e);
  return unit([a - b - c + d, c - a - b + d, b - a - c + d]);
}

/** Compares distances along the normal with what open space would give (Evans 2006). */
function openness(solids: readonly Solid[], at: Vec, normal: Vec): number {
  let lost = 0;
  for (let k = 1; k <= 4; k++) {
    const reach = 0.0175 * k;
    const p = add(at, scale(normal, reach));
    let distance = reach;
    for (const solid of solids) {
      const away = Math.hypot(p[0] - solid.centre[0], p[1] - solid.centre[1], p[2] - solid.centre[2]);
      if (away - solid.radius < distance) distance = Math.min(distance, solid.distance(p[0], p[1], p[2]));
    }
    lost += Math.max(0, reach - distance) / reach / 2 ** (k * 0.6);
  }
  return Math.max(0, 1 - 0.75 * lost);
}
