import { betweenBytes } from '@semblance/vision/plane/cubic';
import { sumRows } from './before.ts';
import { type Layer, ONE, PIECE, RowPieces } from './row-pieces.ts';
import {
  CHROMA_STRIDE,
  LUMA_BIT,
  LUMA_HALF,
  LUMA_LANES,
  LUMA_NONE,
  LUMA_SHARE,
  LUMA_STEPS,
} from './texture-data.ts';

/** A share of 1 as a lane of a packed value gives it between four pixels: colour, brightness. */
const FULL = 255 * 256;
const FULL_LUMA = LUMA_SHARE * 256;
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

/** The same, nearly as sharp as the frame: moved cheeks would else look softer than the neck. */
function sharpBetween(own: Uint8Array, width: number, last: number, sx: number, sy: number): number {
  const x = sx >> 16;
  const y = sy >> 16;
  const at = y * width + x;
  if (x < 1 || y < 1 || x > width - 3 || at + 2 * width > last) return ownBetween(own, width, last, sx, sy);
  return betweenBytes(own, width, at, (sx >> 8) & 255, (sy >> 8) & 255);
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
          (sharpBetween(own, width, last, sx, sy) / 65536) * (1 - part) +
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
