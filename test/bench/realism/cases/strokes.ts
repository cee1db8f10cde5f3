import type { Rgb } from './colour.ts';
import { cover, type Layer } from './layer.ts';

export interface Spot {
  readonly x: number;
  readonly y: number;
  /** Half width in samples. */
  readonly radius: number;
}

/**
 * Draws a line of varying width through spots of the grid.
 * @param paint returns the colour and the coverage at a share of the length, a signed offset across in [-1, 1], and
 *   a sample index
 */
export function drawStroke(
  layer: Layer,
  spots: readonly Spot[],
  paint: (along: number, across: number, i: number) => { colour: Rgb; alpha: number },
): void {
  const { width, height } = layer.grid;
  const best = new Map<number, { distance: number; along: number; across: number; radius: number }>();
  for (let k = 0; k + 1 < spots.length; k++) {
    const [a, b] = [spots[k] as Spot, spots[k + 1] as Spot];
    const reach = Math.max(a.radius, b.radius) + 1;
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const squared = Math.max(1e-9, dx * dx + dy * dy);
    const right = Math.min(width - 1, Math.ceil(Math.max(a.x, b.x) + reach));
    const bottom = Math.min(height - 1, Math.ceil(Math.max(a.y, b.y) + reach));
    for (let y = Math.max(0, Math.floor(Math.min(a.y, b.y) - reach)); y <= bottom; y++) {
      for (let x = Math.max(0, Math.floor(Math.min(a.x, b.x) - reach)); x <= right; x++) {
        const [px, py] = [x + 0.5 - a.x, y + 0.5 - a.y];
        const t = Math.min(1, Math.max(0, (px * dx + py * dy) / squared));
        const distance = Math.hypot(px - t * dx, py - t * dy);
        const radius = a.radius + (b.radius - a.radius) * t;
        if (distance > radius + 0.5) continue;
        const i = y * width + x;
        const known = best.get(i);
        if (known && known.distance - known.radius <= distance - radius) continue;
        const side = Math.sign(dx * py - dy * px) || 1;
        const along = (k + t) / (spots.length - 1);
        best.set(i, { distance, along, across: (side * distance) / Math.max(0.5, radius), radius });
      }
    }
  }
  for (const [i, { distance, along, across, radius }] of best) {
    // A line thinner than a sample covers a share of it.
    const edge = Math.min(1, Math.max(0, radius + 0.5 - distance)) * Math.min(1, 2 * radius);
    const { colour, alpha } = paint(along, Math.min(1, Math.max(-1, across)), i);
    cover(layer, i, colour, alpha * edge);
  }
}
