/** Corners of triangles, x and y in turn, in pixels (the centre of pixel i is at i + 0.5). */
export interface TriangleGeometry {
  /** On the target. */
  readonly to: Float32Array;
  /** On the textures. */
  readonly from: Float32Array;
  /** Corner indices, three per triangle, in drawing order. */
  readonly triangles: Uint16Array;
  /** Pixels of the planes per unit of the coordinates: 1, or 0.5 for chroma. */
  readonly scale: number;
  /** Part of the target that may be drawn, in whole pixels at any scale; default: all of it. */
  readonly clip?: ClipBox;
}

export interface ClipBox {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

/**
 * Receives one row of a triangle: the pixels `x0` ≤ x < `x1` of row `y`, and the texture position at the first of
 * them with its change per pixel.
 */
export type Span = (
  y: number,
  x0: number,
  x1: number,
  sx: number,
  sy: number,
  dx: number,
  dy: number,
) => void;

/** Rows of triangles in drawing order, in lists that grow. A call for each row would cost more than its pixels. */
export class Spans {
  count = 0;
  /** y, x0 and x1 of each row. */
  rows = new Int32Array(3 * 4096);
  /** sx, sy, dx and dy of each row. */
  places = new Float64Array(4 * 4096);

  add(y: number, x0: number, x1: number, sx: number, sy: number, dx: number, dy: number): void {
    if (this.count * 3 === this.rows.length) this.#grow();
    const r = this.count * 3;
    const p = this.count * 4;
    this.rows[r] = y;
    this.rows[r + 1] = x0;
    this.rows[r + 2] = x1;
    this.places[p] = sx;
    this.places[p + 1] = sy;
    this.places[p + 2] = dx;
    this.places[p + 3] = dy;
    this.count++;
  }

  #grow(): void {
    const rows = new Int32Array(this.rows.length * 2);
    const places = new Float64Array(this.places.length * 2);
    rows.set(this.rows);
    places.set(this.places);
    this.rows = rows;
    this.places = places;
  }
}

/** Shared by all calls, so that its lists grow once. */
const scanned = new Spans();

/**
 * Rasterises the front-facing triangles (anticlockwise in a picture with y down). Neighbours share no pixel and
 * leave none out.
 */
export function scanTriangles(
  size: { readonly width: number; readonly height: number },
  geometry: TriangleGeometry,
  span: Span,
): void {
  collectSpans(scanned, size, geometry);
  const { count, rows, places } = scanned;
  for (let i = 0; i < count; i++) {
    const [y, x0, x1] = rows.subarray(i * 3, i * 3 + 3) as unknown as [number, number, number];
    const [sx, sy, dx, dy] = places.subarray(i * 4, i * 4 + 4) as unknown as [number, number, number, number];
    span(y, x0, x1, sx, sy, dx, dy);
  }
}

/** Collects the rows of {@link scanTriangles}. */
export function collectSpans(
  into: Spans,
  { width, height }: { readonly width: number; readonly height: number },
  { to, from, triangles, scale, clip }: TriangleGeometry,
): void {
  into.count = 0;
  const leftmost = clip ? clip.left * scale : 0;
  const topmost = clip ? clip.top * scale : 0;
  const rightmost = clip ? clip.right * scale : width;
  const lowest = clip ? clip.bottom * scale : height;
  for (let t = 0; t < triangles.length; t += 3) {
    const a = triangles[t] as number;
    const b = triangles[t + 1] as number;
    const c = triangles[t + 2] as number;
    const ax = (to[a * 2] as number) * scale;
    const ay = (to[a * 2 + 1] as number) * scale;
    const bx = (to[b * 2] as number) * scale;
    const by = (to[b * 2 + 1] as number) * scale;
    const cx = (to[c * 2] as number) * scale;
    const cy = (to[c * 2 + 1] as number) * scale;
    const area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
    if (area > -1e-6) continue;
    const top = Math.max(topmost, Math.ceil(Math.min(ay, by, cy) - 0.5));
    const bottom = Math.min(lowest - 1, Math.ceil(Math.max(ay, by, cy) - 0.5) - 1);
    if (bottom < top) continue;
    const fax = (from[a * 2] as number) * scale;
    const fay = (from[a * 2 + 1] as number) * scale;
    const ux = (from[b * 2] as number) * scale - fax;
    const uy = (from[b * 2 + 1] as number) * scale - fay;
    const vx = (from[c * 2] as number) * scale - fax;
    const vy = (from[c * 2 + 1] as number) * scale - fay;
    const dx = ((cy - ay) * ux - (by - ay) * vx) / area;
    const dy = ((cy - ay) * uy - (by - ay) * vy) / area;
    const ex = ((bx - ax) * vx - (cx - ax) * ux) / area;
    const ey = ((bx - ax) * vy - (cx - ax) * uy) / area;
    for (let y = top; y <= bottom; y++) {
      const line = y + 0.5;
      let left = -Infinity;
      let right = Infinity;
      // Each edge bounds the row on one side: a falling edge on the left, a rising one on the right.
      let rise = by - ay;
      if (rise !== 0) {
        const x = ((line - ay) * bx + (by - line) * ax) / rise;
        if (rise > 0) left = x;
        else right = x;
      }
      rise = cy - by;
      if (rise !== 0) {
        const x = ((line - by) * cx + (cy - line) * bx) / rise;
        if (rise > 0) {
          if (x > left) left = x;
        } else if (x < right) right = x;
      }
      rise = ay - cy;
      if (rise !== 0) {
        const x = ((line - cy) * ax + (ay - line) * cx) / rise;
        if (rise > 0) {
          if (x > left) left = x;
        } else if (x < right) right = x;
      }
      const x0 = Math.max(leftmost, Math.ceil(left - 0.5));
      const x1 = Math.min(rightmost, Math.ceil(right - 0.5));
      if (x1 <= x0) continue;
      const px = x0 + 0.5 - ax;
      const py = line - ay;
      into.add(y, x0, x1, fax + px * dx + py * ex, fay + px * dy + py * ey, dx, dy);
    }
  }
}
