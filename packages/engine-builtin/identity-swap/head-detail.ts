import { LEFT_BROW, LEFT_EYE, LIPS_OUTER, RIGHT_BROW, RIGHT_EYE } from '@semblance/vision/face-regions';
import { blur, type Plane } from '@semblance/vision/plane/plane';
import type { Planes } from '../animate/openings.ts';
import { type BytePlane, sampleByte } from '../animate/raster.ts';
import { seededRandom } from '../random.ts';
import { noiseAround } from '../swap/noise.ts';

/** Mesh points with edges in every face. */
const FEATURES = [...LEFT_EYE, ...RIGHT_EYE, ...LEFT_BROW, ...RIGHT_BROW, ...LIPS_OUTER, 98, 327, 2];
/** Scale of the compared edges, in eye distances. */
const SCALE = 0.03;
/** Ratio of edges up to which two faces are as sharp as each other. */
const ALIKE = 1.2;
/** Strongest and weakest sharpening, and the most that it changes a pixel, in levels. */
const MOST = 1.1;
const LEAST = -0.7;
const LIMIT = 20;

/** Mesh points in the middle of both cheeks, and half the side of the measured squares, in eye distances. */
const CHEEKS = [50, 280] as const;
const CHEEK = 0.22;
/** Strongest grain that is added, in levels. */
const MOST_GRAIN = 4;
/** Part of the grain that remains when the head is drawn smaller than it was cut out. */
const DRAWN = 0.6;

/** How finely a face is shown. */
export interface FaceDetail {
  /** Mean strength of the edges of its features, in levels. */
  readonly edges: number;
  /** Standard deviation of the noise on its skin, in levels. */
  readonly grain: number;
}

/** @param points x and y of the mesh points, in pixels of `luma` */
export function faceDetail(luma: BytePlane, points: Float32Array, iod: number): FaceDetail {
  const reach = Math.max(1, SCALE * iod);
  let edges = 0;
  for (const i of FEATURES) {
    const [x, y] = [points[i * 2] as number, points[i * 2 + 1] as number];
    for (const [dx, dy] of [
      [0, 0],
      [reach, 0],
      [0, reach],
    ] as const)
      edges += Math.abs(bump(luma, x + dx, y + dy, reach)) / (3 * FEATURES.length);
  }
  const { width, data } = luma;
  const at = (x: number, y: number): number => data[y * width + x] as number;
  const half = Math.max(3, Math.round(CHEEK * iod));
  const noises = CHEEKS.map((i) => {
    const [x, y] = [Math.round(points[i * 2] as number), Math.round(points[i * 2 + 1] as number)];
    return noiseAround(luma, at, { x, y, reach: half });
  });
  return { edges, grain: Math.min(...noises) };
}

/** Returns how much a place differs from the mean of four places around it. */
function bump(luma: BytePlane, x: number, y: number, by: number): number {
  const around =
    sampleByte(luma, x - by, y) +
    sampleByte(luma, x + by, y) +
    sampleByte(luma, x, y - by) +
    sampleByte(luma, x, y + by);
  return sampleByte(luma, x, y) - around / 4;
}

/**
 * Returns a head as sharp and as grainy as a face in the video. A head has the edges of another face, so that only a
 * clear difference counts.
 * @param iod eye distance of the head
 */
export function withDetail(planes: Planes, own: FaceDetail, seen: FaceDetail, iod: number): Planes {
  const ratio = seen.edges / Math.max(0.1, own.edges);
  const amount = Math.max(
    LEAST,
    Math.min(MOST, ratio > 1 ? Math.max(0, ratio / ALIKE - 1) : Math.min(0, ratio * ALIKE - 1)),
  );
  const grain = Math.min(MOST_GRAIN, Math.sqrt(Math.max(0, seen.grain ** 2 - own.grain ** 2)));
  const { width, height, data } = planes.y;
  const values: Plane = { width, height, data: Float32Array.from(data) };
  const smooth = blur(values, Math.max(0.8, SCALE * iod));
  const noise = steadyNoise();
  const y = new Uint8ClampedArray(data.length);
  for (let i = 0; i < y.length; i++) {
    const value = data[i] as number;
    const change = amount * (value - (smooth.data[i] as number));
    y[i] = value + Math.max(-LIMIT, Math.min(LIMIT, change)) + (grain / DRAWN) * noise();
  }
  return { ...planes, y: { width, height, data: new Uint8Array(y.buffer) } };
}

/** Returns random numbers of mean 0 and deviation 1, the same each time. */
function steadyNoise(): () => number {
  const next = seededRandom('grain of a head');
  // A sum of four has nearly the shape of a normal distribution.
  return () => (next() + next() + next() + next() - 2) * Math.sqrt(3);
}
