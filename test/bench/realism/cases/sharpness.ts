import type { Picture } from '@semblance/engine-api/picture';
import type { Face } from '@semblance/vision/face-mesh';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import { median } from './light.ts';

/** Grain and sharpness of a picture around a face. */
export interface Sharpness {
  /** Deviation of the noise of single pixels, in levels of brightness. */
  readonly noise: number;
  /** Deviation of the Gaussian that blurs its sharpest edges, in pixels. */
  readonly edge: number;
}

/** Blur that the difference between two pixels adds to an edge, in pixels. */
const DIFFERENCE = 0.6;

/** Returns the brightness of a picture, 0–255 (ITU-R BT.601). */
function brightness({ width, height, data }: Picture): Plane {
  const out = plane(width, height);
  for (let i = 0, p = 0; i < out.data.length; i++, p += 3) {
    out.data[i] =
      0.299 * (data[p] as number) + 0.587 * (data[p + 1] as number) + 0.114 * (data[p + 2] as number);
  }
  return out;
}

/** Measures the grain and the sharpness of a picture within a square of 1.6 face widths around the face. */
export function measureSharpness(picture: Picture, face: Face): Sharpness {
  const y = brightness(picture);
  const [cx, cy] = [face.points[12] as number, face.points[13] as number];
  const reach = 0.8 * face.width;
  const left = Math.max(2, Math.floor(cx - reach));
  const right = Math.min(y.width - 3, Math.ceil(cx + reach));
  const top = Math.max(2, Math.floor(cy - reach));
  const bottom = Math.min(y.height - 3, Math.ceil(cy + reach));
  const noises: number[] = [];
  const edges: { slope: number; i: number; dx: number; dy: number }[] = [];
  const step = Math.max(1, Math.floor(face.width / 300));
  for (let v = top; v <= bottom; v += step) {
    for (let u = left; u <= right; u += step) {
      const i = v * y.width + u;
      const at = (x: number, down: number): number => y.data[i + down * y.width + x] as number;
      // Immerkær 1996: a mask that is blind to edges and slopes.
      const residual =
        at(-1, -1) -
        2 * at(0, -1) +
        at(1, -1) -
        2 * at(-1, 0) +
        4 * at(0, 0) -
        2 * at(1, 0) +
        at(-1, 1) -
        2 * at(0, 1) +
        at(1, 1);
      const [dx, dy] = [(at(1, 0) - at(-1, 0)) / 2, (at(0, 1) - at(0, -1)) / 2];
      noises.push(Math.abs(residual) / 6);
      edges.push({ slope: Math.hypot(dx, dy), i, dx, dy });
    }
  }
  edges.sort((a, b) => b.slope - a.slope);
  const sharpest = edges.slice(0, Math.max(1, Math.floor(edges.length * 0.004)));
  const widths = sharpest.map((edge) => edgeWidth(y, edge, Math.max(3, Math.round(face.width / 60))));
  widths.sort((a, b) => a - b);
  const measured = widths[Math.floor(0.15 * widths.length)] ?? 0.8;
  return {
    noise: 1.4826 * median(noises),
    edge: Math.min(0.04 * face.width, Math.sqrt(Math.max(0.4 ** 2, measured ** 2 - DIFFERENCE ** 2))),
  };
}

/** Returns the deviation of a blurred step: its height by its steepest slope, over √(2π). */
function edgeWidth(
  y: Plane,
  edge: { slope: number; i: number; dx: number; dy: number },
  reach: number,
): number {
  const [x0, y0] = [edge.i % y.width, Math.floor(edge.i / y.width)];
  let [low, high] = [Infinity, -Infinity];
  for (let s = -reach; s <= reach; s++) {
    const u = Math.round(x0 + (s * edge.dx) / Math.max(1e-6, edge.slope));
    const v = Math.round(y0 + (s * edge.dy) / Math.max(1e-6, edge.slope));
    if (u < 0 || v < 0 || u >= y.width || v >= y.height) continue;
    low = Math.min(low, y.data[v * y.width + u] as number);
    high = Math.max(high, y.data[v * y.width + u] as number);
  }
  return (high - low) / Math.max(1e-6, edge.slope) / Math.sqrt(2 * Math.PI);
}
