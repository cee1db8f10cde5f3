import type { RgbImage } from '@semblance/vision/picture';
import { blur, type Plane, plane, sample } from '@semblance/vision/plane/plane';

const ANGLES = 120;

/** Returns the gradient magnitude at each pixel, summed over the colour channels. */
export function edgeStrength(image: RgbImage, sigma: number): Plane {
  const { width, height } = image;
  const out = plane(width, height);
  for (let c = 0; c < 3; c++) {
    const channel = plane(width, height);
    for (let i = 0; i < channel.data.length; i++) channel.data[i] = image.data[i * 3 + c] as number;
    const { data } = blur(channel, sigma);
    for (let y = 1; y + 1 < height; y++) {
      for (let x = 1; x + 1 < width; x++) {
        const i = y * width + x;
        const dx = (data[i + 1] as number) - (data[i - 1] as number);
        const dy = (data[i + width] as number) - (data[i - width] as number);
        out.data[i] = (out.data[i] as number) + Math.sqrt(dx * dx + dy * dy) / 2;
      }
    }
  }
  return out;
}

/**
 * Returns the closed line around a point that follows the strongest edges: the rim of a lens. It is found by
 * dynamic programming over directions (active contours: Amini, Weymouth and Jain 1990), once around from every
 * start of a first, free pass.
 * @param radii smallest and largest distance from the centre, and their aspect ratio (x over y)
 * @returns x and y in turn, in pixels of the edge plane
 */
export function closedContour(
  edges: Plane,
  centre: { x: number; y: number },
  radii: { least: number; most: number; stretch: number },
): number[] {
  const steps = Math.max(4, Math.round(radii.most - radii.least) + 1);
  const place = (angle: number, step: number): { x: number; y: number } => {
    const radius = radii.least + (step * (radii.most - radii.least)) / (steps - 1);
    const phi = (angle / ANGLES) * 2 * Math.PI;
    return { x: centre.x + radii.stretch * radius * Math.cos(phi), y: centre.y + radius * Math.sin(phi) };
  };
  const gain = new Float32Array(ANGLES * steps);
  for (let a = 0; a < ANGLES; a++) {
    for (let s = 0; s < steps; s++) {
      const { x, y } = place(a, s);
      gain[a * steps + s] = Math.min(60, sample(edges, x, y));
    }
  }
  const free = bestPath(gain, steps, undefined);
  // A free path need not close. Its middle is reliable, so the second pass starts and ends there.
  const half = ANGLES / 2;
  const anchor = free[half] as number;
  const turned = new Float32Array(gain.length);
  for (let a = 0; a < ANGLES; a++) {
    const from = ((a + half) % ANGLES) * steps;
    turned.set(gain.subarray(from, from + steps), a * steps);
  }
  const path = bestPath(turned, steps, anchor);
  return path.flatMap((step, a) => {
    const { x, y } = place((a + half) % ANGLES, step);
    return [x, y];
  });
}

function bestPath(gain: Float32Array, steps: number, anchor: number | undefined): number[] {
  const total = new Float32Array(gain.length);
  const back = new Int32Array(gain.length);
  for (let s = 0; s < steps; s++) {
    total[s] = anchor === undefined || Math.abs(s - anchor) <= 1 ? (gain[s] as number) : -1e9;
  }
  for (let a = 1; a < ANGLES; a++) {
    for (let s = 0; s < steps; s++) {
      let best = -Infinity;
      let from = s;
      for (let d = -2; d <= 2; d++) {
        const p = s + d;
        if (p < 0 || p >= steps) continue;
        const value = (total[(a - 1) * steps + p] as number) - 2 * Math.abs(d);
        if (value > best) {
          best = value;
          from = p;
        }
      }
      total[a * steps + s] = best + (gain[a * steps + s] as number);
      back[a * steps + s] = from;
    }
  }
  const last = (ANGLES - 1) * steps;
  let s = 0;
  for (let k = 1; k < steps; k++) {
    const allowed = anchor === undefined || Math.abs(k - anchor) <= 2;
    const current = anchor === undefined || Math.abs(s - anchor) <= 2;
    if (allowed && (!current || (total[last + k] as number) > (total[last + s] as number))) s = k;
  }
  const path = new Array<number>(ANGLES);
  for (let a = ANGLES - 1; a >= 0; a--) {
    path[a] = s;
    s = back[a * steps + s] as number;
  }
  return path;
}
