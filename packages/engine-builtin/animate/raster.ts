import { betweenBytes } from '@semblance/vision/plane/cubic';
import { collectSpans, Spans, type TriangleGeometry } from './triangle-spans.ts';

/** Bytes over a grid of pixels: one plane of a frame or of a texture. */
export interface BytePlane {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array;
}

/** Number of fractions of a pixel; integers are faster than floats here. */
const ONE = 65_536;
/** Shared by all calls, so that its lists grow once. */
const spans = new Spans();

/**
 * Draws triangles of a texture onto a plane, with interpolation that keeps it sharp.
 * @param alpha opacity of the texture, 0–255, of the same size; default: opaque
 */
export function drawTexture(
  target: BytePlane,
  texture: BytePlane,
  geometry: TriangleGeometry,
  alpha?: BytePlane,
): void {
  collectSpans(spans, target, geometry);
  paintSpans(target, texture, alpha?.data, true);
}

/** Does the same, softer, for several planes of one size: the chroma planes. */
export function drawTextures(
  targets: readonly BytePlane[],
  textures: readonly BytePlane[],
  geometry: TriangleGeometry,
  alpha?: BytePlane,
): void {
  collectSpans(spans, targets[0] as BytePlane, geometry);
  targets.forEach((target, i) => {
    paintSpans(target, textures[i] as BytePlane, alpha?.data, false);
  });
}

function paintSpans(
  target: BytePlane,
  texture: BytePlane,
  opacity: Uint8Array | undefined,
  sharp: boolean,
): void {
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
    const [first, last] = [Math.min(fromX, toX), Math.max(fromX, toX)];
    const [top, bottom] = [Math.min(fromY, toY), Math.max(fromY, toY)];
    if (sharp && first >= 1 && top >= 1 && last < width - 2 && bottom < height - 2) {
      innerSpan(out, texture, opacity, { from: row + x0, end, px, py, stepX, stepY });
      continue;
    }
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

/** A row in whole numbers: the pixels `from` ≤ i < `end`, and their places in the texture. */
interface WholeSpan {
  readonly from: number;
  readonly end: number;
  readonly px: number;
  readonly py: number;
  readonly stepX: number;
  readonly stepY: number;
}

/** Draws a row inside the texture. */
function innerSpan(
  out: Uint8Array,
  { width, data }: BytePlane,
  opacity: Uint8Array | undefined,
  { from, end, stepX, stepY, ...start }: WholeSpan,
): void {
  let { px, py } = start;
  for (let o = from; o < end; o++, px += stepX, py += stepY) {
    const i = (py >> 16) * width + (px >> 16);
    const share = opacity === undefined ? 255 : (opacity[i] as number);
    if (share === 0) continue;
    const fx = (px >> 8) & 255;
    const a = data[i] as number;
    const c = data[i + width] as number;
    const upper = (a << 8) + ((data[i + 1] as number) - a) * fx;
    const lower = (c << 8) + ((data[i + width + 1] as number) - c) * fx;
    const value = ((upper << 8) + (lower - upper) * ((py >> 8) & 255) + 32_768) >> 16;
    if (share === 255) out[o] = value;
    else {
      const under = out[o] as number;
      out[o] = (under * 255 + (value - under) * share + 127) / 255;
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

/** The same, nearly as sharp as the plane. */
export function sharpByte(plane: BytePlane, x: number, y: number): number {
  const { width, height, data } = plane;
  const px = x - 0.5;
  const py = y - 0.5;
  if (px < 1 || py < 1 || px >= width - 2 || py >= height - 2) return sampleByte(plane, x, y);
  const fx = ((px * 256) | 0) & 255;
  const fy = ((py * 256) | 0) & 255;
  const value = betweenBytes(data, width, (py | 0) * width + (px | 0), fx, fy) / ONE;
  return value <= 0 ? 0 : value >= 255 ? 255 : value;
}
