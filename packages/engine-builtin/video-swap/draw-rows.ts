import type { Grain } from '../swap/swap-plan.ts';
import type { Before } from './before.ts';
import { sumRows } from './before.ts';
import type { Frame } from './frame-part.ts';
import { type OwnShift, type PlaceRow, spanAt } from './grid-map.ts';
import {
  CHROMA_STRIDE,
  LUMA_BIT,
  LUMA_HALF,
  LUMA_LANES,
  LUMA_NONE,
  LUMA_SHARE,
  LUMA_STEPS,
  type TextureData,
} from './texture-data.ts';

/** Everything needed to draw a face's texture onto one frame. */
export interface Layer {
  readonly frame: Frame;
  readonly before: Before;
  readonly texture: TextureData;
  readonly places: PlaceRow;
  readonly shift: OwnShift;
  /** Largest distance of two neighbours that belong together. */
  readonly most: number;
  /** For each grid row, the first mesh column and the one after the last. */
  readonly spans: Int32Array;
  /** Frame pixels per grid pixel. */
  readonly scale: number;
  readonly black: number;
  readonly opacity: number;
  readonly gain: number;
  /** Side of the texture, in pixels. */
  readonly size: number;
  readonly grain: Grain;
}

/** One pixel in texture coordinates, which have 16 bits of fraction. */
const ONE = 1 << 16;
/** A share of 1 as a lane of a packed value gives it between four pixels: colour, brightness. */
const FULL = 255 * 256;
const FULL_LUMA = LUMA_SHARE * 256;
/** Numbers of one piece of a row. */
const PIECE = 10;

/** Pieces of a row between two grid columns; in each piece the texture position moves evenly. */
class RowPieces {
  count = 0;
  /**
   * For each piece: first pixel, the one after the last, start position in the texture and step, start of the shift
   * of the frame's own pixels and step, each x and y.
   */
  readonly data: Int32Array;
  readonly #layer: Layer;
  /** Frame pixels per pixel of the drawn plane: 1, or 2 for chroma. */
  readonly #pixel: 1 | 2;
  /** First pixel of each cell, and its distance to the right of the cell's column. */
  readonly #starts: Int32Array;
  readonly #offsets: Float64Array;
  readonly #shiftX: Float32Array;
  readonly #shiftY: Float32Array;

  /** @param width of the plane, in pixels */
  constructor(layer: Layer, pixel: 1 | 2, width: number) {
    this.#layer = layer;
    this.#pixel = pixel;
    const columns = layer.places.values.length / 2;
    // A fold needs two pieces.
    this.data = new Int32Array(columns * 2 * PIECE);
    this.#shiftX = new Float32Array(columns);
    this.#shiftY = new Float32Array(columns);
    const by = pixel / layer.scale;
    // Pixel x lies at (x + 0.5) · by − 0.5 of the grid. Outside the columns the cells of the edge continue.
    this.#starts = Int32Array.from({ length: columns }, (_, cell) => {
      if (cell === 0) return 0;
      return cell === columns - 1 ? width : Math.min(width, Math.max(0, Math.ceil((cell + 0.5) / by - 0.5)));
    });
    this.#offsets = Float64Array.from(this.#starts, (x, cell) => (x + 0.5) * by - 0.5 - cell);
  }

  /** Computes the pieces of a row of the plane. */
  moveTo(y: number): void {
    this.count = 0;
    const { places, spans, scale, most } = this.#layer;
    const by = this.#pixel / scale;
    const { start, end } = spanAt(spans, (y + 0.5) * by);
    if (end <= start) return;
    const { values } = places;
    const firstCell = Math.max(0, start);
    const lastCell = Math.min(values.length / 2 - 2, end);
    places.moveTo((y + 0.5) * by, firstCell, lastCell + 2);
    this.#moveShift((y + 0.5) * by);
    for (let cell = firstCell; cell <= lastCell; cell++) {
      const left = values[cell * 2] as number;
      const above = values[cell * 2 + 1] as number;
      const dx = (values[cell * 2 + 2] as number) - left;
      const dy = (values[cell * 2 + 3] as number) - above;
      const x = this.#starts[cell] as number;
      const stop = this.#starts[cell + 1] as number;
      if (Number.isNaN(dx) || stop <= x) continue;
      if (dx > most || dx < -most || dy > most || dy < -most) {
        // A fold has nothing between its two sides: each half of the cell shows its own side.
        const middle = Math.min(stop, Math.max(x, Math.ceil((cell + 1) / by - 0.5)));
        this.#add(x, middle, left, above, 0, 0);
        this.#addShift(cell, 0, 0);
        this.#add(middle, stop, left + dx, above + dy, 0, 0);
        this.#addShift(cell + 1, 0, 0);
        continue;
      }
      const u = this.#offsets[cell] as number;
      this.#add(x, stop, left + dx * u, above + dy * u, dx * by, dy * by);
      this.#addShift(cell, u, by);
    }
  }

  /** Interpolates the shift of a row of nodes. */
  #moveShift(y: number): void {
    const { shift, places } = this.#layer;
    const columns = places.values.length / 2;
    const rows = shift.x.length / columns;
    const py = Math.min(rows - 1.001, Math.max(0, y - 0.5));
    const v = py - (py | 0);
    const start = (py | 0) * columns;
    for (let i = 0; i < columns; i++) {
      const above = start + i;
      const below = above + columns;
      this.#shiftX[i] = (shift.x[above] as number) * (1 - v) + (shift.x[below] as number) * v;
      this.#shiftY[i] = (shift.y[above] as number) * (1 - v) + (shift.y[below] as number) * v;
    }
  }

  /** Adds the shift to the last piece, from `u` of a cell in steps of `by`; 0: it is that of the cell's column. */
  #addShift(cell: number, u: number, by: number): void {
    if (this.count === 0) return;
    const unit = ONE / this.#pixel;
    const at = (this.count - 1) * PIECE + 6;
    const { data } = this;
    for (const [axis, row] of [this.#shiftX, this.#shiftY].entries()) {
      const from = row[cell] as number;
      const step = by === 0 ? 0 : (row[cell + 1] as number) - from;
      data[at + axis] = Math.round((from + step * u) * unit);
      data[at + 2 + axis] = Math.trunc(step * by * unit);
    }
  }

  #add(from: number, to: number, px: number, py: number, stepX: number, stepY: number): void {
    if (to <= from) return;
    const { size } = this.#layer;
    const pixel = this.#pixel;
    const last = (pixel === 1 ? size : size >> 1) - 1.001;
    const limit = (v: number): number => (v < 0 ? 0 : v > last ? last : v);
    // Both ends lie in the texture, so everything between them does too.
    const x0 = limit(px / pixel - 0.5);
    const y0 = limit(py / pixel - 0.5);
    const steps = to - from - 1;
    const x1 = limit((px + stepX * steps) / pixel - 0.5);
    const y1 = limit((py + stepY * steps) / pixel - 0.5);
    const { data } = this;
    const at = this.count++ * PIECE;
    data[at] = from;
    data[at + 1] = to;
    data[at + 2] = x0 * ONE;
    data[at + 3] = y0 * ONE;
    data[at + 4] = steps > 0 ? Math.trunc(((x1 - x0) * ONE) / steps) : 0;
    data[at + 5] = steps > 0 ? Math.trunc(((y1 - y0) * ONE) / steps) : 0;
  }
}

/**
 * Interpolates both lanes of packed values between four neighbours; each lane of the result has 8 bits of fraction.
 */
function between(a: number, b: number, c: number, d: number, fx: number, fy: number): number {
  const gx = 256 - fx;
  const top = ((Math.imul(a, gx) + Math.imul(b, fx) + 0x00800080) >>> 8) & 0x00ff00ff;
  const bottom = ((Math.imul(c, gx) + Math.imul(d, fx) + 0x00800080) >>> 8) & 0x00ff00ff;
  return Math.imul(top, 256 - fy) + Math.imul(bottom, fy);
}

/** The same for brightness, whose lanes have other widths. */
function betweenLuma(a: number, b: number, c: number, d: number, fx: number, fy: number): number {
  const gx = 256 - fx;
  const top = ((Math.imul(a, gx) + Math.imul(b, fx) + LUMA_HALF) >>> 8) & LUMA_LANES;
  const bottom = ((Math.imul(c, gx) + Math.imul(d, fx) + LUMA_HALF) >>> 8) & LUMA_LANES;
  return Math.imul(top, 256 - fy) + Math.imul(bottom, fy);
}

/** Interpolates between four bytes; the result has 16 bits of fraction. The places have 16 bits of fraction too. */
function ownBetween(own: Uint8Array, width: number, last: number, sx: number, sy: number): number {
  const a = Math.min(last, Math.max(0, (sy >> 16) * width + (sx >> 16)));
  const fx = (sx >> 8) & 255;
  const fy = (sy >> 8) & 255;
  const right = sx >> 16 < width - 1 ? 1 : 0;
  const down = a + width <= last ? width : 0;
  const top = (own[a] as number) * (256 - fx) + (own[a + right] as number) * fx;
  const bottom = (own[a + down] as number) * (256 - fx) + (own[a + down + right] as number) * fx;
  return top * (256 - fy) + bottom * fy;
}

export function drawLuma(layer: Layer): void {
  const { frame, before, texture, black, opacity, gain, size, grain } = layer;
  const { luma } = texture;
  const { data } = frame;
  const { width, height } = before;
  const own = before.luma;
  const pieces = new RowPieces(layer, 1, width);
  const piece = pieces.data;
  const byShare = opacity / FULL_LUMA;
  const byLuma = (opacity * gain) / 256 / LUMA_STEPS;
  const none = LUMA_NONE * 256;
  const lower = 2 ** LUMA_BIT - 1;
  // Added for each share of black when the rest is made brighter or darker.
  const lift = black * (1 - gain);
  const grainy = grain.share > 0;
  const byGrain = grain.share / 9;
  const most = 9 * grain.limit;
  const sums = new Int32Array(width);
  const last = own.length - 1;
  for (let y = 0; y < height; y++) {
    pieces.moveTo(y);
    if (pieces.count === 0) continue;
    if (grainy) sumRows(before, y, sums);
    const out = (before.y + y) * frame.width + before.x;
    const row = y * width;
    for (let p = 0, end = pieces.count * PIECE; p < end; p += PIECE) {
      const to = piece[p + 1] as number;
      let tx = piece[p + 2] as number;
      let ty = piece[p + 3] as number;
      const stepX = piece[p + 4] as number;
      const stepY = piece[p + 5] as number;
      const x0 = piece[p] as number;
      let sx = x0 * ONE + (piece[p + 6] as number);
      let sy = y * ONE + (piece[p + 7] as number);
      const ownX = ONE + (piece[p + 8] as number);
      const ownY = piece[p + 9] as number;
      for (let x = x0; x < to; x++, tx += stepX, ty += stepY, sx += ownX, sy += ownY) {
        const a = (ty >> 16) * size + (tx >> 16);
        const c = a + size;
        const packed = betweenLuma(
          luma[a] as number,
          luma[a + 1] as number,
          luma[c] as number,
          luma[c + 1] as number,
          (tx >> 8) & 255,
          (ty >> 8) & 255,
        );
        const part = (packed >>> LUMA_BIT) * byShare;
        let value =
          (ownBetween(own, width, last, sx, sy) / 65536) * (1 - part) +
          ((packed & lower) - none) * byLuma +
          lift * part;
        if (grainy && part > 0) {
          // The frame's finest texture: film grain, noise, pores.
          const left = sums[x < 2 ? 0 : x - 2] as number;
          const right = sums[x + 2 < width ? x + 2 : width - 1] as number;
          let fine = 9 * (own[row + x] as number) - left - right - (sums[x] as number);
          if (fine > most) fine = most;
          else if (fine < -most) fine = -most;
          value += byGrain * part * fine;
        }
        data[out + x] = value <= 0 ? 0 : value >= 255 ? 255 : value + 0.5;
      }
    }
  }
}

export function drawChroma(layer: Layer): void {
  const { frame, before, texture, opacity, gain, size } = layer;
  const { chroma } = texture;
  const { data } = frame;
  const [width, height] = [before.width >> 1, before.height >> 1];
  const pieces = new RowPieces(layer, 2, width);
  const piece = pieces.data;
  const half = size >> 1;
  const down = half * CHROMA_STRIDE;
  const byShare = opacity / FULL;
  const byColor = (opacity * gain) / 256;
  const grey = 128 * 256;
  const last = before.u.length - 1;
  const stride = frame.width >> 1;
  const uAt = frame.width * frame.height;
  const vAt = uAt + uAt / 4;
  for (let y = 0; y < height; y++) {
    pieces.moveTo(y);
    const out = ((before.y >> 1) + y) * stride + (before.x >> 1);
    for (let p = 0, end = pieces.count * PIECE; p < end; p += PIECE) {
      const to = piece[p + 1] as number;
      let tx = piece[p + 2] as number;
      let ty = piece[p + 3] as number;
      const stepX = piece[p + 4] as number;
      const stepY = piece[p + 5] as number;
      const x0 = piece[p] as number;
      let sx = x0 * ONE + (piece[p + 6] as number);
      let sy = y * ONE + (piece[p + 7] as number);
      const ownX = ONE + (piece[p + 8] as number);
      const ownY = piece[p + 9] as number;
      for (let x = x0; x < to; x++, tx += stepX, ty += stepY, sx += ownX, sy += ownY) {
        const a = ((ty >> 16) * half + (tx >> 16)) * CHROMA_STRIDE;
        const c = a + down;
        const fx = (tx >> 8) & 255;
        const fy = (ty >> 8) & 255;
        const total = between(
          chroma[a + 1] as number,
          chroma[a + CHROMA_STRIDE + 1] as number,
          chroma[c + 1] as number,
          chroma[c + CHROMA_STRIDE + 1] as number,
          fx,
          fy,
        );
        const packed = between(
          chroma[a] as number,
          chroma[a + CHROMA_STRIDE] as number,
          chroma[c] as number,
          chroma[c + CHROMA_STRIDE] as number,
          fx,
          fy,
        );
        const rest = 1 - total * byShare;
        const u =
          128 +
          (ownBetween(before.u, width, last, sx, sy) / 65536 - 128) * rest +
          ((packed & 0xffff) - grey) * byColor;
        const v =
          128 +
          (ownBetween(before.v, width, last, sx, sy) / 65536 - 128) * rest +
          ((packed >>> 16) - grey) * byColor;
        data[uAt + out + x] = u <= 0 ? 0 : u >= 255 ? 255 : u + 0.5;
        data[vAt + out + x] = v <= 0 ? 0 : v >= 255 ? 255 : v + 0.5;
      }
    }
  }
}
