import { normal, type Random } from '@semblance/testkit/sound/random';
import { blur, type Plane, plane } from '@semblance/vision/plane/plane';

function hash(x: number, y: number, z: number, seed: number): number {
  let h = Math.imul(x, 374761393) ^ Math.imul(y, 668265263) ^ Math.imul(z, 1274126177) ^ seed;
  h = Math.imul(h ^ (h >>> 13), 1274126177);
  h = Math.imul(h ^ (h >>> 15), 2246822519);
  return ((h ^ (h >>> 16)) >>> 0) / 2 ** 32;
}

/** Returns smooth noise in [-1, 1] that changes over a distance of about 1 (value noise). */
export function noise(x: number, y: number, z: number, seed: number): number {
  const [ix, iy, iz] = [Math.floor(x), Math.floor(y), Math.floor(z)];
  const soft = (t: number): number => t * t * (3 - 2 * t);
  const [u, v, w] = [soft(x - ix), soft(y - iy), soft(z - iz)];
  let sum = 0;
  for (let k = 0; k < 8; k++) {
    const [a, b, c] = [k & 1, (k >> 1) & 1, k >> 2];
    const weight = (a ? u : 1 - u) * (b ? v : 1 - v) * (c ? w : 1 - w);
    sum += weight * hash(ix + a, iy + b, iz + c, seed);
  }
  return 2 * sum - 1;
}

/** Returns the sum of noise at three scales, each half as large and half as strong as the one before. */
export function rough(x: number, y: number, z: number, seed: number): number {
  return (
    (noise(x, y, z, seed) +
      0.5 * noise(2 * x, 2 * y, 2 * z, seed + 1) +
      0.25 * noise(4 * x, 4 * y, 4 * z, seed + 2)) /
    1.75
  );
}

/** Side of the square of noise that repeats over a large picture. */
const TILE = 512;

/** Returns camera noise of deviation 1, as fine as noise that a JPEG file keeps. */
export function grain(random: Random, width: number, height: number): Plane {
  const tile = plane(Math.min(TILE, width), Math.min(TILE, height));
  for (let i = 0; i < tile.data.length; i++) tile.data[i] = normal(random);
  const soft = blur(tile, 0.5);
  // A box blur of radius 1, twice, leaves this share of the deviation.
  const left = deviation(soft);
  const out = plane(width, height);
  for (let y = 0, i = 0; y < height; y++) {
    const row = (y % soft.height) * soft.width;
    for (let x = 0; x < width; x++, i++) out.data[i] = (soft.data[row + (x % soft.width)] as number) / left;
  }
  return out;
}

function deviation({ data }: Plane): number {
  let squares = 0;
  for (const value of data) squares += value * value;
  return Math.max(1e-6, Math.sqrt(squares / Math.max(1, data.length)));
}
