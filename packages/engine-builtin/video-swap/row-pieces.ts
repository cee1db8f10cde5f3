import type { Grain } from '../swap/grain.ts';
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
  /** Last place of the texture, in pixels of the plane's size. */
  readonly #last: number;
  /** First pixel of each cell, and its distance to the right of the cell's column. */
  readonly #starts: Int32Array;
  readonly #offsets: Float64Array;
  readonly #shiftX: Float32Array;
  readonly #shiftY: Float32Array;

  /** @param width of the plane, in pixels */
  constructor(layer: Layer, pixel: 1 | 2, width: number) {
    this.#layer = layer;
    this.#pixel = pixel;
    this.#last = (pixel === 1 ? layer.size : layer.size >> 1) - 1.001;
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
    const [shiftX, shiftY] = [this.#shiftX, this.#shiftY];
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
        if (middle > x) {
          this.#add(x, middle, left, above, 0, 0);
          this.#addShift(shiftX[cell] as number, shiftY[cell] as number, 0, 0);
        }
        if (stop > middle) {
          this.#add(middle, stop, left + dx, above + dy, 0, 0);
          this.#addShift(shiftX[cell + 1] as number, shiftY[cell + 1] as number, 0, 0);
        }
        continue;
      }
      const u = this.#offsets[cell] as number;
      this.#add(x, stop, left + dx * u, above + dy * u, dx * by, dy * by);
      const [ownX, ownY] = [shiftX[cell] as number, shiftY[cell] as number];
      const [ownDx, ownDy] = [(shiftX[cell + 1] as number) - ownX, (shiftY[cell + 1] as number) - ownY];
      this.#addShift(ownX + ownDx * u, ownY + ownDy * u, ownDx * by, ownDy * by);
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

  /** Adds a piece from `from` to before `to`. */
  #add(from: number, to: number, px: number, py: number, stepX: number, stepY: number): void {
    const at = this.count++ * PIECE;
    const { data } = this;
    data[at] = from;
    data[at + 1] = to;
    const by = 1 / this.#pixel;
    const last = this.#last;
    const steps = to - from - 1;
    const x0 = px * by - 0.5;
    const y0 = py * by - 0.5;
    const x1 = x0 + stepX * by * steps;
    const y1 = y0 + stepY * by * steps;
    if (x0 >= 0 && x0 <= last && x1 >= 0 && x1 <= last && y0 >= 0 && y0 <= last && y1 >= 0 && y1 <= last) {
      data[at + 2] = x0 * ONE;
      data[at + 3] = y0 * ONE;
      data[at + 4] = stepX * by * ONE;
      data[at + 5] = stepY * by * ONE;
      return;
    }
    // Both ends are moved into the texture, so everything between them lies there too.
    const limit = (v: number): number => (v < 0 ? 0 : v > last ? last : v);
    data[at + 2] = limit(x0) * ONE;
    data[at + 3] = limit(y0) * ONE;
    data[at + 4] = steps > 0 ? ((limit(x1) - limit(x0)) * ONE) / steps : 0;
    data[at + 5] = steps > 0 ? ((limit(y1) - limit(y0)) * ONE) / steps : 0;
  }

  /** Adds the shift of the frame's own pixels to the last piece. */
  #addShift(x: number, y: number, stepX: number, stepY: number): void {
    const unit = ONE / this.#pixel;
    const at = (this.count - 1) * PIECE + 6;
    const { data } = this;
    data[at] = Math.round(x * unit);
    data[at + 1] = Math.round(y * unit);
    data[at + 2] = stepX * unit;
    data[at + 3] = stepY * unit;
  }
}
