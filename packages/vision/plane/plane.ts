import { boxPasses } from './box-passes.ts';
import { floats, unset } from './scratch.ts';

/** Field over a grid of pixels, in a plain typed array. */
export interface Plane {
  readonly width: number;
  readonly height: number;
  readonly data: Float32Array;
}

export function plane(width: number, height: number, fill = 0): Plane {
  const data = floats(width * height);
  if (fill !== 0) data.fill(fill);
  return { width, height, data };
}

/** Returns 0 below `low`, 1 above `high`, and a smooth transition between. */
export function smoothstep(low: number, high: number, value: number): number {
  const t = Math.min(1, Math.max(0, (value - low) / (high - low)));
  return t * t * (3 - 2 * t);
}

/**
 * Fills a polygon: 1 inside, 0 outside, by the even-odd rule at pixel centres.
 * @param outline x and y in turn, in pixels of the plane
 */
export function fillPolygon(target: Plane, outline: ArrayLike<number>, value = 1): void {
  const { width, height, data } = target;
  const corners = outline.length / 2;
  let top = Infinity;
  let bottom = -Infinity;
  for (let i = 0; i < corners; i++) {
    top = Math.min(top, outline[i * 2 + 1] as number);
    bottom = Math.max(bottom, outline[i * 2 + 1] as number);
  }
  const crossings: number[] = [];
  const lastRow = Math.min(height - 1, Math.floor(bottom));
  for (let y = Math.max(0, Math.floor(top)); y <= lastRow; y++) {
    const line = y + 0.5;
    crossings.length = 0;
    for (let i = 0; i < corners; i++) {
      const j = (i + 1) % corners;
      const y0 = outline[i * 2 + 1] as number;
      const y1 = outline[j * 2 + 1] as number;
      if (y0 <= line === y1 <= line) continue;
      const x0 = outline[i * 2] as number;
      crossings.push(x0 + ((line - y0) / (y1 - y0)) * ((outline[j * 2] as number) - x0));
    }
    crossings.sort((a, b) => a - b);
    for (let c = 0; c + 1 < crossings.length; c += 2) {
      const from = Math.max(0, Math.ceil((crossings[c] as number) - 0.5));
      const to = Math.min(width - 1, Math.ceil((crossings[c + 1] as number) - 0.5) - 1);
      for (let x = from; x <= to; x++) data[y * width + x] = value;
    }
  }
}

let distanceScratch = new Int32Array(0);

/** Returns the reused buffer of {@link distanceInside}. */
function distances(length: number): Int32Array {
  if (distanceScratch.length < length) distanceScratch = new Int32Array(length);
  return distanceScratch.subarray(0, length);
}

/**
 * Returns the distance in pixels from each pixel where `mask` ≥ 0.5 to the nearest one where it is less (chamfer
 * 3-4, ±4 %; Borgefors 1986).
 * @param beyond whether the area beyond the border counts as outside the mask
 */
export function distanceInside(mask: Plane, beyond = true): Plane {
  const { width, height } = mask;
  // A margin of one pixel saves a bounds check for every neighbour.
  const stride = width + 2;
  const far = 3 * (width + height);
  const d = distances(stride * (height + 2)).fill(beyond ? 0 : far);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      d[(y + 1) * stride + x + 1] = (mask.data[y * width + x] as number) >= 0.5 ? far : 0;
    }
  }
  for (let y = 1; y <= height; y++) {
    for (let i = y * stride + 1, end = i + width; i < end; i++) {
      let v = d[i] as number;
      if (v === 0) continue;
      const above = i - stride;
      v = Math.min(v, (d[i - 1] as number) + 3, (d[above] as number) + 3);
      d[i] = Math.min(v, (d[above - 1] as number) + 4, (d[above + 1] as number) + 4);
    }
  }
  const out = plane(width, height);
  for (let y = height; y >= 1; y--) {
    for (let i = y * stride + width, x = width - 1; x >= 0; i--, x--) {
      let v = d[i] as number;
      if (v === 0) continue;
      const below = i + stride;
      v = Math.min(v, (d[i + 1] as number) + 3, (d[below] as number) + 3);
      v = Math.min(v, (d[below - 1] as number) + 4, (d[below + 1] as number) + 4);
      d[i] = v;
      out.data[(y - 1) * width + x] = v / 3;
    }
  }
  return out;
}

/**
 * Grows (`radius` > 0) or shrinks (< 0) the area where `mask` ≥ 0.5; the result is 0 or 1. Distances are those of
 * {@link distanceInside}.
 */
export function grow(mask: Plane, radius: number): Plane {
  const { width, height, data } = mask;
  const out = plane(width, height, radius < 0 ? 1 : 0);
  // Shrinking an area grows what is around it.
  const [grown, low, high] = radius < 0 ? [0, -Infinity, 0.5] : [1, 0.5, Infinity];
  const reaches = reachesOf(Math.abs(radius));
  const far = reaches.length - 1;
  for (let y = 0, row = 0; y < height; y++, row += width) {
    const [first, last] = [Math.max(0, y - far), Math.min(height - 1, y + far)];
    for (let x = 0; x < width; x++) {
      const value = data[row + x] as number;
      if (value < low || value >= high) continue;
      const start = x++;
      while (x < width && (data[row + x] as number) >= low && (data[row + x] as number) < high) x++;
      for (let there = first; there <= last; there++) {
        const reach = reaches[Math.abs(there - y)] as number;
        const at = there * width;
        out.data.fill(grown, at + Math.max(0, start - reach), at + Math.min(width, x + reach));
      }
    }
  }
  return out;
}

/** Returns how far to the side a place within a distance can be, for each number of rows between. */
function reachesOf(radius: number): number[] {
  const within = (x: number, y: number): boolean =>
    Math.fround((3 * Math.max(x, y) + Math.min(x, y)) / 3) <= radius;
  const out: number[] = [];
  for (let y = 0; within(0, y); y++) {
    let x = 0;
    while (within(x + 1, y)) x++;
    out.push(x);
  }
  return out;
}

/** Approximates a Gaussian blur by two box passes (Wells 1986); the edge repeats. Returns a new plane. */
export function blur(source: Plane, sigma: number): Plane {
  const { width, height } = source;
  const data = unset(width * height);
  if (sigma < 0.3) {
    data.set(source.data);
    return { width, height, data };
  }
  const radius = Math.max(1, Math.round((Math.sqrt(6 * sigma * sigma + 1) - 1) / 2));
  boxPasses(data, width, height, radius, source.data);
  boxPasses(data, width, height, radius);
  return { width, height, data };
}

/** Interpolates between pixels, the edge repeating; x and y are continuous (the centre of pixel i is i + 0.5). */
export function sample(source: Plane, x: number, y: number): number {
  const { width, height, data } = source;
  const px = Math.min(width - 1, Math.max(0, x - 0.5));
  const py = Math.min(height - 1, Math.max(0, y - 0.5));
  const x0 = px | 0;
  const y0 = py | 0;
  const x1 = x0 + 1 < width ? x0 + 1 : x0;
  const y1 = y0 + 1 < height ? y0 + 1 : y0;
  const fx = px - x0;
  const fy = py - y0;
  const top = (data[y0 * width + x0] as number) * (1 - fx) + (data[y0 * width + x1] as number) * fx;
  const bottom = (data[y1 * width + x0] as number) * (1 - fx) + (data[y1 * width + x1] as number) * fx;
  return top * (1 - fy) + bottom * fy;
}

/** Several fields over one grid, interleaved by pixel, so that one read returns all of them. */
export interface Bundle {
  readonly width: number;
  readonly height: number;
  readonly fields: number;
  readonly data: Float32Array;
}

export function bundle(planes: readonly Plane[]): Bundle {
  const { width, height } = planes[0] as Plane;
  const fields = planes.length;
  const data = unset(width * height * fields);
  planes.forEach((source, f) => {
    for (let i = 0; i < width * height; i++) data[i * fields + f] = source.data[i] as number;
  });
  return { width, height, fields, data };
}

/** Row interpolated between two rows of a bundle. Reading along it takes two values per field instead of four. */
export class BundleRow {
  /** Fields of each pixel of the row. */
  readonly values: Float32Array;
  readonly #source: Bundle;
  #at = Number.NaN;

  constructor(source: Bundle) {
    this.#source = source;
    this.values = new Float32Array(source.width * source.fields);
  }

  /** Moves to the row at `y` (continuous; the centre of row i is i + 0.5); the edge repeats. */
  moveTo(y: number): void {
    const { width, height, fields, data } = this.#source;
    const row = this.values;
    const py = Math.min(height - 1, Math.max(0, y - 0.5));
    if (py === this.#at) return;
    this.#at = py;
    const y0 = py | 0;
    const v = py - y0;
    const n = width * fields;
    const top = y0 * n;
    const bottom = y0 + 1 < height ? top + n : top;
    for (let i = 0; i < n; i++) {
      const a = data[top + i] as number;
      row[i] = a + ((data[bottom + i] as number) - a) * v;
    }
  }

  /** Reads all fields at `x`. */
  read(x: number, out: Float32Array): void {
    const { width, fields } = this.#source;
    const row = this.values;
    const px = Math.min(width - 1, Math.max(0, x - 0.5));
    const x0 = px | 0;
    const u = px - x0;
    const a = x0 * fields;
    const right = x0 + 1 < width ? fields : 0;
    for (let i = a, f = 0; f < fields; i++, f++) {
      const left = row[i] as number;
      out[f] = left + ((row[i + right] as number) - left) * u;
    }
  }
}

/** Shrinks by an integer factor, averaging. */
export function shrinkPlane(source: Plane, factor: number): Plane {
  const width = Math.ceil(source.width / factor);
  const height = Math.ceil(source.height / factor);
  const out = plane(width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      let sum = 0;
      let count = 0;
      const bottom = Math.min(source.height, (y + 1) * factor);
      const right = Math.min(source.width, (x + 1) * factor);
      for (let sy = y * factor; sy < bottom; sy++) {
        for (let sx = x * factor; sx < right; sx++) {
          sum += source.data[sy * source.width + sx] as number;
          count++;
        }
      }
      out.data[y * width + x] = sum / count;
    }
  }
  return out;
}
