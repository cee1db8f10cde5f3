import type { WarpMap } from '@semblance/vision/plane/warp-map';

/** Returns for each row of a map the first column that it covers, and the one after the last. */
export function spansOf({ covered }: WarpMap): Int32Array {
  const { width, height, data } = covered;
  const spans = new Int32Array(height * 2);
  for (let y = 0; y < height; y++) {
    let start = 0;
    let end = width;
    while (start < width && data[y * width + start] === 0) start++;
    while (end > start && data[y * width + end - 1] === 0) end--;
    // An empty row has no effect when it is combined with the next.
    spans[y * 2] = start;
    spans[y * 2 + 1] = end > start ? end : 0;
  }
  return spans;
}

/** Returns the columns between which the mesh lies at a height, with a margin of one. */
export function spanAt(spans: Int32Array, y: number): { start: number; end: number } {
  const rows = spans.length / 2;
  const row = Math.min(rows - 1, Math.max(0, Math.floor(y - 0.5)));
  const next = Math.min(rows - 1, row + 1);
  return {
    start: Math.min(spans[row * 2] as number, spans[next * 2] as number) - 1,
    end: Math.max(spans[row * 2 + 1] as number, spans[next * 2 + 1] as number) + 1,
  };
}

/**
 * One row of a map at any height between its rows. At a fold (the nose in front of the cheek) two neighbours lie
 * far apart and the nearer one is taken, because nothing lies between them. Beside the mesh the value is NaN.
 */
export class PlaceRow {
  /** x and y for each column. */
  readonly values: Float32Array;
  readonly #map: WarpMap;
  readonly #most: number;

  /** @param most largest distance of two neighbours that belong together */
  constructor(map: WarpMap, most: number) {
    this.#map = map;
    this.#most = most;
    this.values = new Float32Array(map.x.width * 2);
  }

  /**
   * Moves to the row at `y` (continuous; the centre of row i is i + 0.5); the edge repeats.
   * @param from first wanted column; `to` is the one after the last. Other columns keep their values.
   */
  moveTo(y: number, from: number, to: number): void {
    const { x: xs, y: ys, covered } = this.#map;
    const { width, height } = xs;
    const most = this.#most;
    const out = this.values;
    const py = Math.min(height - 1.001, Math.max(0, y - 0.5));
    const v = py - (py | 0);
    const start = (py | 0) * width;
    for (let i = start + from, o = from * 2, end = start + to; i < end; i++, o += 2) {
      const below = i + width;
      if (covered.data[i] === 0 || covered.data[below] === 0) {
        out[o] = Number.NaN;
        continue;
      }
      const ax = xs.data[i] as number;
      const ay = ys.data[i] as number;
      const dx = (xs.data[below] as number) - ax;
      const dy = (ys.data[below] as number) - ay;
      let part = v;
      if (dx > most || dx < -most || dy > most || dy < -most) part = v < 0.5 ? 0 : 1;
      out[o] = ax + dx * part;
      out[o + 1] = ay + dy * part;
    }
  }
}

/** For each node of the grid, how far the frame's own pixels lie from where they are drawn, in frame pixels. */
export interface OwnShift {
  readonly x: Float32Array;
  readonly y: Float32Array;
}

/**
 * Returns the shift of the frame's own pixels, which move with the features of the new face.
 * @param own for each node, the place on the grid whose pixels belong there
 * @param shareAt returns the share of the swap at a node, so far its pixels move
 */
export function ownShift(
  own: WarpMap,
  scale: number,
  size: { readonly width: number; readonly height: number },
  shareAt: (node: number) => number,
): OwnShift {
  const { width, height } = own.x;
  const x = new Float32Array(width * height);
  const y = new Float32Array(width * height);
  const within = (value: number, most: number): number => Math.min(most, Math.max(0, value));
  for (let row = 0, i = 0; row < height; row++) {
    for (let column = 0; column < width; column++, i++) {
      const share = own.covered.data[i] ? shareAt(i) : 0;
      if (share === 0) continue;
      const [hereX, hereY] = [(column + 0.5) * scale - 0.5, (row + 0.5) * scale - 0.5];
      const thereX = hereX + share * ((own.x.data[i] as number) - column - 0.5) * scale;
      const thereY = hereY + share * ((own.y.data[i] as number) - row - 0.5) * scale;
      x[i] = within(thereX, size.width - 1) - hereX;
      y[i] = within(thereY, size.height - 1) - hereY;
    }
  }
  return { x, y };
}
