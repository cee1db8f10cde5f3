/**
 * PDQ, the perceptual hash of exchanged lists (Meta's ThreatExchange, StopNCII). A picture is reduced to 64 × 64
 * points. 256 bits say where its cosine transform is above its own median. Copies that were scaled, re-encoded or
 * lightly edited differ in few bits. Steps, constants and bit order are those of the published algorithm.
 */

/** Hexadecimal digits of a hash, as in lists. */
export const PDQ_DIGITS = 64;

/** Largest side of the reduced picture, in pixels. */
export const PDQ_SIDE = 512;

export interface PdqHash {
  /** 32 bytes, the last coefficient of the transform first. */
  readonly bits: Uint8Array;
  /** Amount of detail in the picture, 0 to 100. According to PDQ's authors, hashes below 50 mean little. */
  readonly quality: number;
}

const POINTS = 64;
const WAVES = 16;
const REPEATS = 2;

/** Row k of the transform is a cosine of k + 1 half-turns. The mean of the picture (no turn) is left out. */
const WAVE = Float32Array.from({ length: WAVES * POINTS }, (_, index) => {
  const [wave, point] = [Math.floor(index / POINTS), index % POINTS];
  return Math.sqrt(2 / POINTS) * Math.cos((Math.PI / 2 / POINTS) * (wave + 1) * (2 * point + 1));
});

/**
 * Returns the hash of the picture, and that of the mirrored picture: mirroring is the cheapest way to evade a list.
 * @param luma row by row, 0 to 255
 */
export function pdqHashes(luma: Float32Array, width: number, height: number): [PdqHash, PdqHash] {
  const points = decimate(smooth(luma, width, height), width, height);
  const waves = transform(points);
  // A cosine with an odd number of half-turns changes its sign when mirrored.
  const mirrored = waves.map((value, index) => ((index % WAVES) % 2 === 0 ? -value : value));
  const quality = qualityOf(points);
  return [
    { bits: bitsOf(waves), quality },
    { bits: bitsOf(mirrored), quality },
  ];
}

/** Returns the number of differing bits. */
export function pdqDistance(a: Uint8Array, b: Uint8Array): number {
  let distance = 0;
  for (let index = 0; index < a.length; index++) {
    let bits = (a[index] ?? 0) ^ (b[index] ?? 0);
    for (; bits !== 0; bits &= bits - 1) distance++;
  }
  return distance;
}

/** Two box filters along each axis approximate the blur before subsampling. */
function smooth(luma: Float32Array, width: number, height: number): Float32Array {
  const window = (length: number) => Math.floor((length + 2 * POINTS - 1) / (2 * POINTS));
  const [across, down] = [window(width), window(height)];
  const values = Float32Array.from(luma);
  const other = new Float32Array(luma.length);
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    for (let row = 0; row < height; row++) box(values, other, row * width, 1, width, across);
    for (let column = 0; column < width; column++) box(other, values, column, width, height, down);
  }
  return values;
}

/** Replaces each value by the mean of a window of `window` values; at the ends, of those that exist. */
function box(
  from: Float32Array,
  to: Float32Array,
  start: number,
  step: number,
  length: number,
  window: number,
): void {
  const ahead = Math.floor((window + 2) / 2);
  const behind = window - ahead;
  let sum = 0;
  let count = 0;
  const at = (index: number) => from[start + index * step] ?? 0;
  for (let index = 0; index < Math.min(ahead - 1, length); index++, count++) sum += at(index);
  for (let index = 0; index < length; index++) {
    const entering = index + ahead - 1;
    if (entering < length) {
      sum += at(entering);
      count++;
    }
    const leaving = index - behind - 1;
    if (leaving >= 0) {
      sum -= at(leaving);
      count--;
    }
    to[start + index * step] = sum / count;
  }
}

function decimate(luma: Float32Array, width: number, height: number): Float32Array {
  const points = new Float32Array(POINTS * POINTS);
  for (let row = 0; row < POINTS; row++) {
    const y = Math.floor(((row + 0.5) * height) / POINTS);
    for (let column = 0; column < POINTS; column++) {
      const x = Math.floor(((column + 0.5) * width) / POINTS);
      points[row * POINTS + column] = luma[y * width + x] ?? 0;
    }
  }
  return points;
}

function qualityOf(points: Float32Array): number {
  let sum = 0;
  const difference = (a: number, b: number) =>
    Math.abs(Math.trunc((((points[a] ?? 0) - (points[b] ?? 0)) * 100) / 255));
  for (let row = 0; row < POINTS; row++) {
    for (let column = 0; column < POINTS; column++) {
      const at = row * POINTS + column;
      if (row < POINTS - 1) sum += difference(at, at + POINTS);
      if (column < POINTS - 1) sum += difference(at, at + 1);
    }
  }
  return Math.min(100, Math.floor(sum / 90));
}

function transform(points: Float32Array): Float32Array {
  const half = new Float32Array(WAVES * POINTS);
  for (let wave = 0; wave < WAVES; wave++) {
    for (let column = 0; column < POINTS; column++) {
      let sum = 0;
      for (let row = 0; row < POINTS; row++) {
        sum += (WAVE[wave * POINTS + row] ?? 0) * (points[row * POINTS + column] ?? 0);
      }
      half[wave * POINTS + column] = sum;
    }
  }
  const waves = new Float32Array(WAVES * WAVES);
  for (let down = 0; down < WAVES; down++) {
    for (let across = 0; across < WAVES; across++) {
      let sum = 0;
      for (let column = 0; column < POINTS; column++) {
        sum += (half[down * POINTS + column] ?? 0) * (WAVE[across * POINTS + column] ?? 0);
      }
      waves[down * WAVES + across] = sum;
    }
  }
  return waves;
}

function bitsOf(waves: Float32Array): Uint8Array {
  // The algorithm takes the lower of the two middle values.
  const median = waves.toSorted()[waves.length / 2 - 1] ?? 0;
  const bits = new Uint8Array(waves.length / 8);
  for (const [index, value] of waves.entries()) {
    // The hash is one number of 256 bits whose last bit is the first coefficient.
    const at = bits.length - 1 - (index >> 3);
    if (value > median) bits[at] = (bits[at] ?? 0) | (1 << (index & 7));
  }
  return bits;
}
