import type { Grain } from '../swap/swap-plan.ts';
import type { Before } from './before.ts';
import type { Frame } from './frame-part.ts';
import { type OwnShift, type PlaceRow, spanAt } from './grid-map.ts';
import type { TextureData } from './texture-data.ts';

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
export const ONE = 1 << 16;
/** Numbers of one piece of a row. */
export const PIECE = 10;

/** Pieces of a row between two grid columns; in each piece the texture position moves evenly. */
export class RowPieces {
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
