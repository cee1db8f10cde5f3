export interface Vec {
  readonly x: number;
  readonly y: number;
}

export const add = (a: Vec, b: Vec): Vec => ({ x: a.x + b.x, y: a.y + b.y });
export const sub = (a: Vec, b: Vec): Vec => ({ x: a.x - b.x, y: a.y - b.y });
export const times = (a: Vec, f: number): Vec => ({ x: a.x * f, y: a.y * f });
export const dot = (a: Vec, b: Vec): number => a.x * b.x + a.y * b.y;
export const cross = (a: Vec, b: Vec): number => a.x * b.y - a.y * b.x;
export const length = (a: Vec): number => Math.hypot(a.x, a.y);
export const middle = (a: Vec, b: Vec): Vec => ({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });
export const mix = (a: Vec, b: Vec, t: number): Vec => ({
  x: a.x + (b.x - a.x) * t,
  y: a.y + (b.y - a.y) * t,
});
export const clamp = (value: number, low: number, high: number): number =>
  Math.min(high, Math.max(low, value));

export function unit(a: Vec): Vec {
  const norm = Math.hypot(a.x, a.y);
  return norm < 1e-9 ? { x: 0, y: 1 } : { x: a.x / norm, y: a.y / norm };
}

/** Returns the distance of a point from a line segment, and the position (0–1) of the nearest point on it. */
export function toSegment(p: Vec, a: Vec, b: Vec): { distance: number; along: number } {
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  const norm = dx * dx + dy * dy;
  const along = norm < 1e-9 ? 0 : clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / norm, 0, 1);
  return { distance: Math.hypot(p.x - a.x - along * dx, p.y - a.y - along * dy), along };
}

/** x' = a x + b y + c, y' = d x + e y + f. */
export type Affine = readonly [a: number, b: number, c: number, d: number, e: number, f: number];

export const IDENTITY: Affine = [1, 0, 0, 0, 1, 0];

export function apply([a, b, c, d, e, f]: Affine, { x, y }: Vec): Vec {
  return { x: a * x + b * y + c, y: d * x + e * y + f };
}

/** Returns the map that applies `first`, then `then`. */
export function compose(then: Affine, first: Affine): Affine {
  const [a, b, c, d, e, f] = then;
  const [p, q, r, s, t, u] = first;
  return [a * p + b * s, a * q + b * t, a * r + b * u + c, d * p + e * s, d * q + e * t, d * r + e * u + f];
}

export function invert([a, b, c, d, e, f]: Affine): Affine {
  const det = a * e - b * d;
  return [e / det, -b / det, (b * f - e * c) / det, -d / det, a / det, (d * c - a * f) / det];
}

/**
 * Returns the map that moves a bone: start of `from` to start of `to`, scaled by `along` along the bone and by
 * `across` across it. A negative `across` mirrors.
 */
export function boneMap(
  from: { readonly a: Vec; readonly axis: Vec },
  to: { readonly a: Vec; readonly axis: Vec },
  along: number,
  across: number,
): Affine {
  const u = unit(from.axis);
  const w = unit(to.axis);
  // Columns are the axes of the bone at its target, rows those at its origin.
  const a = w.x * along * u.x + -w.y * across * -u.y;
  const b = w.x * along * u.y + -w.y * across * u.x;
  const d = w.y * along * u.x + w.x * across * -u.y;
  const e = w.y * along * u.y + w.x * across * u.x;
  return [a, b, to.a.x - a * from.a.x - b * from.a.y, d, e, to.a.y - d * from.a.x - e * from.a.y];
}
