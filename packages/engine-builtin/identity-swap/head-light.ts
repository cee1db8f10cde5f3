import type { Planes } from '../animate/openings.ts';
import { sampleByte } from '../animate/raster.ts';
import type { HeadSpot } from './head-place.ts';

/** Mesh points that show skin: forehead, cheeks, nose. */
const SKIN = [
  151, 9, 108, 337, 69, 299, 50, 280, 101, 330, 36, 266, 205, 425, 187, 411, 118, 347, 117, 346, 123, 352, 6,
  195,
] as const;
/** Share of the difference in light and colour that is applied to a head; all of it would remove its complexion. */
const LIGHT_SHARE = 0.4;
const CAST_SHARE = 0.4;
const GAIN = [0.78, 1.22] as const;
const MAX_CAST = 7;
/** Share of the difference in the direction of the light, and the largest change per eye distance. */
const SIDE_SHARE = 0.6;
const MAX_SIDE = 0.16;

/** Skin of a face as its mesh points show it. */
export interface FaceLight {
  readonly y: number;
  readonly u: number;
  readonly v: number;
  /** Relative change of brightness per eye distance to the right and downwards in the face. */
  readonly right: number;
  readonly down: number;
}

/** @param points x and y of the mesh points, in pixels of `planes` */
export function faceLight(planes: Planes, points: Float32Array, spot: HeadSpot): FaceLight | undefined {
  const seen: { x: number; y: number; l: number; u: number; v: number }[] = [];
  const [cos, sin] = [Math.cos(spot.angle), Math.sin(spot.angle)];
  for (const i of SKIN) {
    const [px, py] = [points[i * 2] as number, points[i * 2 + 1] as number];
    if (px < 1 || py < 1 || px >= planes.y.width - 1 || py >= planes.y.height - 1) continue;
    const [dx, dy] = [(px - spot.x) / spot.iod, (py - spot.y) / spot.iod];
    const around = 0.05 * spot.iod;
    let l = 0;
    for (const [ox, oy] of [
      [-1, -1],
      [1, -1],
      [-1, 1],
      [1, 1],
    ] as const)
      l += sampleByte(planes.y, px + ox * around, py + oy * around) / 4;
    seen.push({
      x: dx * sin - dy * cos,
      y: dx * cos + dy * sin,
      l: Math.max(17, l),
      u: sampleByte(planes.u, px / 2, py / 2),
      v: sampleByte(planes.v, px / 2, py / 2),
    });
  }
  if (seen.length < SKIN.length / 2) return undefined;
  const y = median(seen.map(({ l }) => l));
  // Hair and glasses are no skin.
  const skin = seen.filter(({ l }) => Math.abs(Math.log((l - 16) / Math.max(1, y - 16))) < 0.7);
  const [right, down] = slopeOf(skin.map((p) => ({ ...p, l: Math.log(p.l - 16) })));
  return { y, u: median(skin.map(({ u }) => u)), v: median(skin.map(({ v }) => v)), right, down };
}

/** Fits a plane to values and returns its slopes. */
function slopeOf(points: readonly { x: number; y: number; l: number }[]): [number, number] {
  const n = Math.max(1, points.length);
  const mean = (of: (p: { x: number; y: number; l: number }) => number): number =>
    points.reduce((sum, p) => sum + of(p), 0) / n;
  const [mx, my, ml] = [mean((p) => p.x), mean((p) => p.y), mean((p) => p.l)];
  const xx = mean((p) => (p.x - mx) ** 2) + 0.01;
  const yy = mean((p) => (p.y - my) ** 2) + 0.01;
  const xy = mean((p) => (p.x - mx) * (p.y - my));
  const xl = mean((p) => (p.x - mx) * (p.l - ml));
  const yl = mean((p) => (p.y - my) * (p.l - ml));
  const det = xx * yy - xy * xy;
  return [(xl * yy - yl * xy) / det, (yl * xx - xl * xy) / det];
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}

/**
 * Returns a head in the light of a face in the video: nearer to its brightness and cast, lit from its side.
 * @param spot of the head on its own planes
 */
export function litHead(planes: Planes, own: FaceLight, seen: FaceLight, spot: HeadSpot): Planes {
  const bounded = (value: number, most: number): number => Math.min(most, Math.max(-most, value));
  const light = ((seen.y - 16) / Math.max(1, own.y - 16)) ** LIGHT_SHARE;
  const gain = Math.min(GAIN[1], Math.max(GAIN[0], light));
  const right = bounded(SIDE_SHARE * (seen.right - own.right), MAX_SIDE);
  const down = bounded(SIDE_SHARE * (seen.down - own.down), MAX_SIDE / 2);
  const [cos, sin] = [Math.cos(spot.angle), Math.sin(spot.angle)];
  const { width, height, data } = planes.y;
  const y = new Uint8ClampedArray(data.length);
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const [dx, dy] = [(column + 0.5 - spot.x) / spot.iod, (row + 0.5 - spot.y) / spot.iod];
      const side = bounded(dx * sin - dy * cos, 1.2) * right + bounded(dx * cos + dy * sin - 0.6, 1.2) * down;
      const i = row * width + column;
      y[i] = 16 + ((data[i] as number) - 16) * gain * (1 + side);
    }
  }
  const cast = (from: Uint8Array, by: number): Uint8Array => {
    const to = new Uint8ClampedArray(from.length);
    for (let i = 0; i < to.length; i++) to[i] = (from[i] as number) + by;
    return new Uint8Array(to.buffer);
  };
  return {
    y: { ...planes.y, data: new Uint8Array(y.buffer) },
    u: { ...planes.u, data: cast(planes.u.data, bounded(CAST_SHARE * (seen.u - own.u), MAX_CAST)) },
    v: { ...planes.v, data: cast(planes.v.data, bounded(CAST_SHARE * (seen.v - own.v), MAX_CAST)) },
  };
}
