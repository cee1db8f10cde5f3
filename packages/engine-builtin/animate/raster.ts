/** Bytes over a grid of pixels: one plane of a frame or of a texture. */
export interface BytePlane {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array;
}

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
class Spans {
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
const spans = new Spans();
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

function collectSpans(
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

/** Number of fractions of a pixel; integers are faster than floats here. */
const ONE = 65_536;

/**
 * Draws triangles of a texture onto a plane, with interpolation.
 * @param alpha opacity of the texture, 0–255, of the same size; default: opaque
 */
export function drawTexture(
  target: BytePlane,
  texture: BytePlane,
  geometry: TriangleGeometry,
  alpha?: BytePlane,
): void {
  drawTextures([target], [texture], geometry, alpha);
}

/** Does the same for several planes of one size, such as the chroma planes. */
export function drawTextures(
  targets: readonly BytePlane[],
  textures: readonly BytePlane[],
  geometry: TriangleGeometry,
  alpha?: BytePlane,
): void {
  collectSpans(spans, targets[0] as BytePlane, geometry);
  targets.forEach((target, i) => {
    paintSpans(target, textures[i] as BytePlane, alpha?.data);
  });
}

function paintSpans(target: BytePlane, texture: BytePlane, opacity: Uint8Array | undefined): void {
  const { width, height, data } = texture;
  const out = target.data;
  const stride = target.width;
  const lastX = width - 1.001;
  const lastY = height - 1.001;
  const { count, rows, places } = spans;
  for (let s = 0; s < count; s++) {
    const row = (rows[s * 3] as number) * stride;
    const x0 = rows[s * 3 + 1] as number;
    const x1 = rows[s * 3 + 2] as number;
    const fromX = (places[s * 4] as number) - 0.5;
    const fromY = (places[s * 4 + 1] as number) - 0.5;
    const dx = places[s * 4 + 2] as number;
    const dy = places[s * 4 + 3] as number;
    const steps = x1 - 1 - x0;
    const toX = fromX + steps * dx;
    const toY = fromY + steps * dy;
    const within =
      fromX >= 0 &&
      toX >= 0 &&
      fromX < lastX &&
      toX < lastX &&
      fromY >= 0 &&
      toY >= 0 &&
      fromY < lastY &&
      toY < lastY;
    if (!within) {
      clampedSpan(target, texture, opacity, { row, x0, x1, fromX, fromY, dx, dy });
      continue;
    }
    let px = (fromX * ONE) | 0;
    let py = (fromY * ONE) | 0;
    const stepX = (dx * ONE) | 0;
    const stepY = (dy * ONE) | 0;
    const end = row + x1;
    if (opacity === undefined) {
      for (let o = row + x0; o < end; o++, px += stepX, py += stepY) {
        const i = (py >> 16) * width + (px >> 16);
        const fx = (px >> 8) & 255;
        const t = data[i] as number;
        const b = data[i + width] as number;
        const upper = (t << 8) + ((data[i + 1] as number) - t) * fx;
        const lower = (b << 8) + ((data[i + width + 1] as number) - b) * fx;
        out[o] = ((upper << 8) + (lower - upper) * ((py >> 8) & 255) + 32_768) >> 16;
      }
      continue;
    }
    for (let o = row + x0; o < end; o++, px += stepX, py += stepY) {
      const i = (py >> 16) * width + (px >> 16);
      // The matte is smooth, so its nearest pixel is precise enough.
      const share = opacity[i] as number;
      if (share === 0) continue;
      const fx = (px >> 8) & 255;
      const t = data[i] as number;
      const b = data[i + width] as number;
      const upper = (t << 8) + ((data[i + 1] as number) - t) * fx;
      const lower = (b << 8) + ((data[i + width + 1] as number) - b) * fx;
      const value = ((upper << 8) + (lower - upper) * ((py >> 8) & 255) + 32_768) >> 16;
      if (share === 255) out[o] = value;
      else {
        const under = out[o] as number;
        out[o] = (under * 255 + (value - under) * share + 127) / 255;
      }
    }
  }
}

interface ClampedSpan {
  readonly row: number;
  readonly x0: number;
  readonly x1: number;
  readonly fromX: number;
  readonly fromY: number;
  readonly dx: number;
  readonly dy: number;
}

/** Draws a row that reaches beyond the texture, whose edge repeats. */
function clampedSpan(
  target: BytePlane,
  texture: BytePlane,
  opacity: Uint8Array | undefined,
  { row, x0, x1, fromX, fromY, dx, dy }: ClampedSpan,
): void {
  const { width, height } = texture;
  for (let x = x0, px = fromX, py = fromY; x < x1; x++, px += dx, py += dy) {
    const value = sampleByte(texture, px + 0.5, py + 0.5);
    const ix = Math.min(width - 1, Math.max(0, Math.round(px)));
    const iy = Math.min(height - 1, Math.max(0, Math.round(py)));
    const share = opacity ? (opacity[iy * width + ix] as number) : 255;
    const under = target.data[row + x] as number;
    target.data[row + x] = under + ((value - under) * share) / 255 + 0.5;
  }
}

/** Interpolates a plane; x and y are in pixels of the plane, and the edge repeats. */
export function sampleByte({ width, height, data }: BytePlane, x: number, y: number): number {
  const px = Math.min(width - 1.001, Math.max(0, x - 0.5));
  const py = Math.min(height - 1.001, Math.max(0, y - 0.5));
  const x0 = px | 0;
  const y0 = py | 0;
  const fx = px - x0;
  const fy = py - y0;
  const i = y0 * width + x0;
  const a = data[i] as number;
  const b = data[i + width] as number;
  const top = a + ((data[i + 1] as number) - a) * fx;
  const bottom = b + ((data[i + width + 1] as number) - b) * fx;
  return top + (bottom - top) * fy;
}
