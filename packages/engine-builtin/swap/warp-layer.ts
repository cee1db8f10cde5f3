import { betweenBytes, type Samples, STEPS, WEIGHTS } from '@semblance/vision/plane/cubic';

/** Samples of a picture, or of one plane of it. */
export interface Layer {
  readonly data: Uint8Array | Uint16Array;
  /** Index of its first sample. */
  readonly start: number;
  readonly width: number;
  readonly height: number;
  /** Samples side by side in each place. */
  readonly channels: number;
  /** Pixels of the picture per place. */
  readonly pixels: number;
  /**
   * Samples of 8 bits in a single channel may be read between four others, which is fast, or between eight, which is
   * nearly as sharp; undefined: between sixteen.
   */
  readonly reads?: 4 | 8 | undefined;
}

/** Moves on a grid over a part of a picture. */
export interface Moves {
  readonly left: number;
  readonly top: number;
  readonly step: number;
  readonly columns: number;
  readonly rows: number;
  /** From where each node takes its pixel, x and y relative to it, in pixels. */
  readonly from: Float32Array;
}

/** Moves below it, in samples, change nothing that is seen. */
const LEAST_STEP = 0.05;

/** Fetches each sample from its place, in place. */
export function warpLayer(layer: Layer, { left, top, step, columns, rows, from }: Moves): void {
  const { data, start, width, height, channels, pixels, reads } = layer;
  const row = width * channels;
  const startX = Math.max(0, Math.floor(left / pixels));
  // Most of a jaw's surroundings lie above what moves.
  const moving = movingRows(columns, from, LEAST_STEP * pixels);
  if (moving.end <= moving.start) return;
  const startY = Math.max(0, Math.floor((top + (moving.start - 1) * step) / pixels));
  const endX = Math.min(width, Math.ceil((left + (columns - 1) * step) / pixels));
  const endY = Math.min(height, Math.ceil((top + Math.min(rows - 1, moving.end) * step) / pixels));
  const reach = Math.ceil(from.reduce((far, move) => Math.max(far, Math.abs(move)), 0) / pixels) + 3;
  const firstRow = Math.max(0, startY - reach);
  const lastRow = Math.min(height - 1, endY + reach);
  const before = {
    data: copyOf(data.subarray(start + firstRow * row, start + (lastRow + 1) * row)),
    width,
    height: lastRow + 1 - firstRow,
    channels,
  };
  const line = new Float32Array(columns * 2);
  const runs = new Float64Array(columns * RUN);
  const by = pixels / step;
  // First place that is nearer to each node than to the one before it.
  const begins = Int32Array.from({ length: columns }, (_, i) =>
    Math.min(endX, Math.max(startX, Math.ceil((left + i * step) / pixels - 0.5))),
  );
  const draw = reads === undefined ? cubicRuns : reads === 8 ? bentRuns : linearRuns;
  for (let y = startY; y < endY; y++) {
    const gy = Math.min(rows - 1, Math.max(0, ((y + 0.5) * pixels - top) / step));
    const j = Math.min(rows - 2, gy | 0);
    const v = gy - j;
    const upper = j * columns * 2;
    const lower = upper + columns * 2;
    for (let i = 0; i < line.length; i++)
      line[i] = ((from[upper + i] as number) * (1 - v) + (from[lower + i] as number) * v) / pixels;
    let end = 0;
    // Between two nodes the move changes evenly.
    for (let i = 0; i < columns - 1; i++) {
      const leftX = line[i * 2] as number;
      const leftY = line[i * 2 + 1] as number;
      const alongX = (line[i * 2 + 2] as number) - leftX;
      const alongY = (line[i * 2 + 3] as number) - leftY;
      const most = Math.max(
        Math.abs(leftX) + Math.abs(leftY),
        Math.abs(leftX + alongX) + Math.abs(leftY + alongY),
      );
      const begin = begins[i] as number;
      const count = (begins[i + 1] as number) - begin;
      if (most < LEAST_STEP || count <= 0) continue;
      const u = ((begin + 0.5) * pixels - left) / step - i;
      runs[end] = start + y * row + begin * channels;
      runs[end + 1] = count;
      runs[end + 2] = begin + leftX + alongX * u;
      runs[end + 3] = y - firstRow + leftY + alongY * u;
      runs[end + 4] = 1 + alongX * by;
      runs[end + 5] = alongY * by;
      end += RUN;
    }
    draw(before, data, runs.subarray(0, end));
  }
}

/** Returns the first row of nodes that move by at least some pixels, and the one after the last. */
function movingRows(columns: number, from: Float32Array, least: number): { start: number; end: number } {
  const row = (i: number): number => Math.floor(i / 2 / columns);
  const moves = (move: number): boolean => Math.abs(move) >= least / 2;
  const [first, last] = [from.findIndex(moves), from.findLastIndex(moves)];
  return first < 0 ? { start: 0, end: 0 } : { start: row(first), end: row(last) + 1 };
}

let room: Layer['data'] = new Uint8Array(0);

/** Copies samples. The next call reuses the memory. */
function copyOf(data: Layer['data']): Layer['data'] {
  const wide = data instanceof Uint16Array;
  if (room.length < data.length || room instanceof Uint16Array !== wide)
    room = wide ? new Uint16Array(data.length) : new Uint8Array(data.length);
  room.set(data);
  return room.subarray(0, data.length);
}

/**
 * Numbers of a run, which are places in a row, one after the other: index of the first one in the output, number of
 * places, from where the first one takes its sample (x and y; 0 is the middle of a sample), and steps of x and y.
 */
const RUN = 6;

/** Places have so many bits of fraction. */
const BITS = 16;
const ONE = 1 << BITS;
const HALF = ONE / 2;
const MOST = 255 * ONE;

/** Writes values between four samples of a single channel. */
function linearRuns(samples: Samples, out: Layer['data'], runs: Float64Array): void {
  shortRuns(samples, out, runs, false);
}

/** The same, bent by the samples around them where there are any. */
function bentRuns(samples: Samples, out: Layer['data'], runs: Float64Array): void {
  shortRuns(samples, out, runs, true);
}

function shortRuns(
  { data, width, height }: Samples,
  out: Layer['data'],
  runs: Float64Array,
  bent: boolean,
): void {
  const [lastX, lastY] = [width - 1.001, height - 1.001];
  for (let run = 0; run < runs.length; run += RUN) {
    let at = (runs[run] as number) | 0;
    const count = (runs[run + 1] as number) | 0;
    const fromX = within(runs[run + 2] as number, lastX);
    const fromY = within(runs[run + 3] as number, lastY);
    // Where both ends lie between samples, everything between them does too.
    const steps = Math.max(1, count - 1);
    const toX = within((runs[run + 2] as number) + steps * (runs[run + 4] as number), lastX);
    const toY = within((runs[run + 3] as number) + steps * (runs[run + 5] as number), lastY);
    const stepX = (((toX - fromX) * ONE) / steps) | 0;
    const stepY = (((toY - fromY) * ONE) / steps) | 0;
    let x = (fromX * ONE) | 0;
    let y = (fromY * ONE) | 0;
    const [left, right] = [Math.min(fromX, toX), Math.max(fromX, toX)];
    const [top, bottom] = [Math.min(fromY, toY), Math.max(fromY, toY)];
    if (bent && left >= 1 && top >= 1 && right < width - 2 && bottom < height - 2) {
      const bytes = data as Uint8Array;
      for (const end = at + count; at < end; at++, x += stepX, y += stepY) {
        const i = (y >> BITS) * width + (x >> BITS);
        const value = betweenBytes(bytes, width, i, (x >> 8) & 255, (y >> 8) & 255);
        out[at] = value <= 0 ? 0 : value >= MOST ? 255 : (value + HALF) >> BITS;
      }
      continue;
    }
    for (const end = at + count; at < end; at++, x += stepX, y += stepY) {
      const i = (y >> BITS) * width + (x >> BITS);
      const j = i + width;
      const u = (x >> 8) & 255;
      const a = data[i] as number;
      const c = data[j] as number;
      const upper = (a << 8) + ((data[i + 1] as number) - a) * u;
      const lower = (c << 8) + ((data[j + 1] as number) - c) * u;
      out[at] = ((upper << 8) + (lower - upper) * ((y >> 8) & 255) + 32_768) >> 16;
    }
  }
}

function within(value: number, last: number): number {
  return value < 0 ? 0 : value > last ? last : value;
}

/** Values of each column that a run reads, between four samples above each other. */
let columnValues = new Float32Array(0);

/**
 * Writes values between sixteen samples: first between rows for each column that a run reads, then between columns,
 * so that most values between rows serve four places.
 */
function cubicRuns(samples: Samples, out: Layer['data'], runs: Float64Array): void {
  const { channels } = samples;
  const most = out instanceof Uint16Array ? 65_535 : 255;
  for (let run = 0; run < runs.length; run += RUN) {
    let at = (runs[run] as number) | 0;
    const count = (runs[run + 1] as number) | 0;
    const x = runs[run + 2] as number;
    const stepX = runs[run + 4] as number;
    const end = x + (count - 1) * stepX;
    const first = Math.floor(Math.min(x, end)) - 1;
    const columns = Math.floor(Math.max(x, end)) + 3 - first;
    if (columnValues.length < columns * channels) columnValues = new Float32Array(columns * channels);
    const values = columnValues;
    for (let c = 0; c < columns; c++) {
      const k = Math.min(count - 1, Math.max(0, (first + c - x) / stepX));
      const y = (runs[run + 3] as number) + k * (runs[run + 5] as number);
      betweenRows(samples, first + c, y, values, c * channels);
    }
    for (let k = 0; k < count; k++) {
      const place = x + k * stepX - first;
      const column = place | 0;
      const w = (((place - column) * STEPS + 0.5) | 0) * 4;
      const wa = WEIGHTS[w] as number;
      const wb = WEIGHTS[w + 1] as number;
      const wc = WEIGHTS[w + 2] as number;
      const wd = WEIGHTS[w + 3] as number;
      for (let i = (column - 1) * channels, last = i + channels; i < last; i++) {
        const value =
          wa * (values[i] as number) +
          wb * (values[i + channels] as number) +
          wc * (values[i + 2 * channels] as number) +
          wd * (values[i + 3 * channels] as number);
        out[at++] = value <= 0 ? 0 : value >= most ? most : value + 0.5;
      }
    }
  }
}

/** Writes a column's values at a height, from index `to`; the edge repeats. */
function betweenRows(
  { data, width, height, channels }: Samples,
  column: number,
  y: number,
  out: Float32Array,
  to: number,
): void {
  const [lastX, lastY] = [width - 1, height - 1];
  const py = within(y, lastY);
  const y0 = py | 0;
  const w = (((py - y0) * STEPS + 0.5) | 0) * 4;
  const row = width * channels;
  const at = y0 * row + within(column, lastX) * channels;
  const above = y0 > 0 ? row : 0;
  const below = y0 < lastY ? row : 0;
  const further = y0 + 1 < lastY ? below + row : below;
  const wa = WEIGHTS[w] as number;
  const wb = WEIGHTS[w + 1] as number;
  const wc = WEIGHTS[w + 2] as number;
  const wd = WEIGHTS[w + 3] as number;
  for (let i = at, last = at + channels, o = to; i < last; i++, o++)
    out[o] =
      wa * (data[i - above] as number) +
      wb * (data[i] as number) +
      wc * (data[i + below] as number) +
      wd * (data[i + further] as number);
}
